"""Reads what a stage left in its scratch directory; the stage's code may have put anything there."""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

MAX_DOCUMENT = 256 * 2**20


def open_plain(directory: Path, name: str) -> BinaryIO:
    """Open `directory/name`, which may have folders in it, for reading, without waiting for a FIFO.

    Raises OSError when anything beneath `directory` on the way is a link, or the file is not a regular one with a
    single name.
    """
    with _folder_of(directory, name) as (at, last):
        opened = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
    status = os.fstat(opened)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        os.close(opened)
        raise OSError(f"{name} is not a plain file")
    return os.fdopen(opened, "rb")


def remove(directory: Path, name: str) -> None:
    """Remove `directory/name` if it is there, and follow no link beneath `directory`."""
    with contextlib.suppress(OSError), _folder_of(directory, name) as (at, last):
        os.unlink(last, dir_fd=at)


@contextlib.contextmanager
def _folder_of(directory: Path, name: str) -> Iterator[tuple[int, str]]:
    """The descriptor of the folder that `directory/name` lies in, and the last part of the name. Raises OSError."""
    *folders, last = name.split("/")
    at = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for folder in folders:
            inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = inner
        yield at, last
    finally:
        os.close(at)


def read_stage_document(directory: Path, name: str) -> str:
    """The text of a plain file of at most MAX_DOCUMENT bytes. Raises OSError or ValueError."""
    with open_plain(directory, name) as file:
        text = file.read(MAX_DOCUMENT + 1)
    if len(text) > MAX_DOCUMENT:
        raise ValueError(f"{name} has more than {MAX_DOCUMENT} bytes")
    return text.decode()


def read_end(directory: Path, name: str, many: int) -> str:
    """The last `many` bytes of a plain file; empty when it is none."""
    try:
        with open_plain(directory, name) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - many))
            return file.read(many).decode(errors="replace")
    except OSError:
        return ""
