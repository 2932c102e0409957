"""What the tests compile is kept below `build`, by all that decides it: a later run compiles what has changed."""

import hashlib
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

SECONDS = 30 * 86400
"""What no run takes for so long is removed."""


@cache
def folder() -> Path:
    found = Path(__file__).parents[2] / "build" / "tests"
    found.mkdir(parents=True, exist_ok=True)
    for file in found.glob("*.*"):
        with suppress(FileNotFoundError):  # another worker was first
            if file.stat().st_mtime < time.time() - SECONDS:
                file.unlink()
    return found


def kept(content: bytes, ending: str, build: Callable[[Path], object], where: Path | None = None) -> Path:
    """The file that `build` writes, made once for each content. It is below `build`, or in the folder `where`."""
    where = where or folder()
    made = where / f"{hashlib.sha256(content).hexdigest()[:32]}.{ending}"
    if made.exists():
        made.touch()
    else:
        with tempfile.TemporaryDirectory(dir=where) as scratch:
            build(fresh := Path(scratch) / made.name)
            fresh.replace(made)
    return made
