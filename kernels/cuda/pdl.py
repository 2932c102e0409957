"""Programmatic dependent launch: a kernel that starts while the one before it still runs. Through the CUDA driver."""

import ctypes
from collections.abc import Sequence
from typing import Any

from kernels.cuda.driver import config, driver

PROGRAMMATIC_STREAM_SERIALIZATION = 6
"""CUlaunchAttributeID of the permission to start before the stream's previous kernel has ended."""


def launch_pdl_kernel(
    function: int, grid: Sequence[int], threads: int, arguments: Sequence[Any], shared_bytes: int, stream: int
) -> None:
    """cuLaunchKernelEx of a CUfunction with programmatic stream serialization. Raises RuntimeError with CUDA's code.

    Arguments as CuPy takes them: int (8 bytes), float (a double), bool, numpy scalars and 0-d arrays as they are.
    """
    x, y, z = (*grid, 1, 1)[:3]
    launch = config((x, y, z), threads, shared_bytes, stream, PROGRAMMATIC_STREAM_SERIALIZATION, 1)
    held = [packed_argument(each) for each in arguments]
    pointers = (ctypes.c_void_p * len(held))(*(ctypes.addressof(each) for each in held))
    failed = driver().cuLaunchKernelEx(ctypes.byref(launch), ctypes.c_void_p(function), pointers, None)
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
