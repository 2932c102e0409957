"""The scratch directory of a stage. Directories of killed workers are removed later."""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def scratch(root: Path) -> Iterator[Path]:
    """Yields a new directory under `root` and removes it afterwards. First removes those of processes that were killed.

    A directory belongs to the process that made it and holds its lock; a fork of it that ends leaves it alone. `root`
    lies where nobody else can put a link, such as the data directory.
    """
    maker = os.getpid()
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = root.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise PermissionError(f"{root} is a link, or others may write there: what lies in it would be removed")
    with contextlib.ExitStack() as stack:
        with _locked(root):
            _remove_left(root)
            directory = Path(tempfile.mkdtemp(prefix="", dir=root))
            stack.enter_context(_locked(directory))
        try:
            yield directory
        finally:
            if os.getpid() == maker:
                shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def _locked(directory: Path, wait: bool = True) -> Iterator[None]:
    """Hold the directory's lock; raises BlockingIOError when another process has it and `wait` is off."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _remove_left(root: Path) -> None:
    for directory in root.iterdir():
        with contextlib.suppress(BlockingIOError, FileNotFoundError), _locked(directory, wait=False):
            shutil.rmtree(directory, ignore_errors=True)
