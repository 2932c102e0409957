"""A lock per GPU of the host, so that of several workers on one GPU only one runs a stage at a time."""

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

SECONDS_BETWEEN_TRIES = 0.2


class LockAbandoned(Exception):
    """The caller was told to stop before the GPU was free."""


@contextmanager
def hold_locks(uuids: Iterable[str], stopped: Callable[[], bool], folder: Path | None = None) -> Iterator[None]:
    """Holds the lock of every GPU in `uuids`; the kernel frees it when the process ends. Raises LockAbandoned.

    The lock is a file in `folder`, by default the temporary directory, which all workers of the host must share.
    """
    with ExitStack() as stack:
        for uuid in sorted(uuids):
            descriptor = _open((folder or Path(tempfile.gettempdir())) / f"kernel-workbench-{uuid}.lock")
            stack.callback(os.close, descriptor)
            while not _acquired(descriptor):
                if stopped():
                    raise LockAbandoned
                time.sleep(SECONDS_BETWEEN_TRIES)
        yield


def _open(path: Path) -> int:
    """The lock's file, which another user's worker may have made."""
    try:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)


def _acquired(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
