"""The steps that a run of a kernel on a CPU noted."""

import ctypes

Note = tuple[int, ...]
"""Warp, kind of step (`Step` of fibers.hpp), six values."""

NOTES = """
extern "C" long notes(const long** at) { return *at = (const long*)fibers::notes.data(), fibers::notes.size(); }
"""
"""What an entry must have for `notes`."""


def notes(kernel: ctypes.CDLL) -> list[Note]:
    """What the first lanes of the first cluster's warps did in the last run."""
    at = ctypes.POINTER(ctypes.c_long)()
    kernel.notes.restype = ctypes.c_long
    count = kernel.notes(ctypes.byref(at))
    return [tuple(at[8 * i + j] for j in range(8)) for i in range(count)]
