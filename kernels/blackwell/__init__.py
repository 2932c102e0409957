"""Kernels for sm_100a (B200): compiled and emulated on a CPU, never run on the chip.

The registry alone imports this room, by name. The parts of the tile layer that are for sm_100a lie in `tiles/`, beside
those that they include: tcgen05, tcgen05_tiles, cluster_queue, launch_control, descriptors and rows.
"""
