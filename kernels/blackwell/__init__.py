"""Kernels for sm_100a (B200): compiled and emulated on a CPU, never run on the chip; only the registry imports them.
Their parts of the tile layer lie in `tiles/`.
"""
