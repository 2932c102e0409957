"""System calls that Python's library lacks, by ctypes. Every failure is an OSError."""

import ctypes
import os

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long

NO_NEW_PRIVILEGES = 38
PARENT_DEATH_SIGNAL = 1
CHILD_SUBREAPER = 36
DUMPABLE = 4


def call(number: int, *arguments: object) -> int:
    """The system call of this number; numbers are passed as longs."""
    return _checked(_LIBC.syscall(ctypes.c_long(number), *map(_long, arguments)))


def prctl(option: int, *arguments: object) -> int:
    """prctl(2), with zeros for the arguments that are left out."""
    padded = (*arguments, 0, 0, 0, 0)[:4]
    return _checked(_LIBC.prctl(ctypes.c_int(option), *map(_long, padded)))


def unshare(flags: int) -> None:
    _checked(_LIBC.unshare(ctypes.c_int(flags)))


def mount(source: str, target: str, kind: str, flags: int, data: str) -> None:
    texts = (text.encode() or None for text in (source, target, kind))
    _checked(_LIBC.mount(*texts, ctypes.c_ulong(flags), data.encode() or None))


def _long(value: object) -> object:
    return ctypes.c_long(value) if isinstance(value, int) else value


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(result)
