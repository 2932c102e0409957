"""The CUDA driver by ctypes, for what CuPy does not offer: launches with attributes, how many clusters find room."""

import ctypes
from functools import cache

COOPERATIVE = 2
"""CUlaunchAttributeID of a launch that fails unless all blocks run at once."""
CLUSTER_DIMENSION = 4
"""CUlaunchAttributeID of a cluster's blocks in x, y and z."""


class Attribute(ctypes.Structure):
    """CUlaunchAttribute: an id and a union of 64 bytes, here as its ints."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint * 16))


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("attribute_count", ctypes.c_uint),
    )


def config(
    grid: tuple[int, int, int], threads: int, shared_bytes: int, stream: int, attribute: Attribute | None = None
) -> LaunchConfig:
    """A launch with one attribute, or none."""
    if attribute is None:
        return LaunchConfig(grid, (threads, 1, 1), shared_bytes, stream, None, 0)
    return LaunchConfig(grid, (threads, 1, 1), shared_bytes, stream, ctypes.pointer(attribute), 1)


def max_active_clusters(function: int, size: int, threads: int, shared_bytes: int) -> int:
    """How many clusters of `size` blocks of a CUfunction the GPU runs at once. Raises RuntimeError with CUDA's code."""
    count = ctypes.c_int()
    launch = config((size, 1, 1), threads, shared_bytes, 0, Attribute(CLUSTER_DIMENSION, 0, (size, 1, 1)))
    failed = driver().cuOccupancyMaxActiveClusters(ctypes.byref(count), ctypes.c_void_p(function), ctypes.byref(launch))
    if failed:
        raise RuntimeError(f"cuOccupancyMaxActiveClusters failed with CUDA error {failed}")
    return count.value


@cache
def driver() -> ctypes.CDLL:
    """The driver's library. Raises OSError on a machine without one."""
    return ctypes.CDLL("libcuda.so.1")
