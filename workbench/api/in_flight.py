"""Names that a request holds while it is answered. A process that is killed holds nothing any more."""

import contextlib
import fcntl
import hashlib
import os
import struct
from collections.abc import Iterator

from django.conf import settings

FILE = "in-flight"


@contextlib.contextmanager
def try_lock(name: str) -> Iterator[bool]:
    """Hold `name` for the block; the value is False when another thread or process holds it, and then nothing is held.

    The lock is one byte of a file in the data directory, which all web processes share (Linux: open file description
    locks). The kernel ends it with the process.
    """
    lock_id = int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")
    lock = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, lock_id, 1, 0)
    descriptor = os.open(settings.WORKBENCH_DATA / FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, lock)
        except (BlockingIOError, PermissionError):
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
