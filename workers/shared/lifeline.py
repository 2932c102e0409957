"""Ends a process when its parent ends, even when the parent is killed (Linux)."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def die_with_parent(parent: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send `number` when the parent dies. Exit at once if it has died before this call."""
    if _LIBC is not None and (_LIBC.prctl(_PR_SET_PDEATHSIG, number) != 0 or os.getppid() != parent):
        os._exit(1)
