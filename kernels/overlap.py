"""Programmatic dependent launch: a kernel that starts while the one before it still runs. Through the CUDA driver."""

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

PROGRAMMATIC_STREAM_SERIALIZATION = 6
"""CUlaunchAttributeID of the permission to start before the stream's previous kernel has ended."""


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute: an id and a union of 64 bytes, of which the value here is its first int."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_int), ("rest", ctypes.c_char * 60))


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("attribute_count", ctypes.c_uint),
    )


def launch_overlapping(
    function: int, grid: Sequence[int], threads: int, arguments: Sequence[Any], shared_bytes: int, stream: int
) -> None:
    """cuLaunchKernelEx of a CUfunction with programmatic stream serialization. Raises RuntimeError with CUDA's code.

    Arguments as CuPy takes them: int (8 bytes), float (a double), bool, numpy scalars and 0-d arrays as they are.
    """
    dimensions = (*grid, 1, 1)[:3]
    attribute = _Attribute(PROGRAMMATIC_STREAM_SERIALIZATION, 0, 1)
    config = _Config(dimensions, (threads, 1, 1), shared_bytes, stream, ctypes.pointer(attribute), 1)
    held = [packed_argument(each) for each in arguments]
    pointers = (ctypes.c_void_p * len(held))(*(ctypes.addressof(each) for each in held))
    failed = _driver().cuLaunchKernelEx(ctypes.byref(config), ctypes.c_void_p(function), pointers, None)
    if failed:
        raise RuntimeError(f"cuLaunchKernelEx failed with CUDA error {failed}")


def packed_argument(value: Any) -> Any:
    """One kernel argument as a ctypes object that holds its bytes. Raises TypeError for anything else."""
    if isinstance(value, bool):
        return ctypes.c_bool(value)
    if isinstance(value, int):
        return ctypes.c_int64(value) if value < 1 << 63 else ctypes.c_uint64(value)
    if isinstance(value, float) and not hasattr(value, "tobytes"):
        return ctypes.c_double(value)
    if hasattr(value, "tobytes"):
        content = value.tobytes()
        return ctypes.create_string_buffer(content, len(content))
    raise TypeError(f"a kernel argument is {type(value).__name__}: int, float, bool or a numpy scalar is needed")


@cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")
