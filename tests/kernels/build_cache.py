"""What the tests compile, by all that decides it: a later run compiles what has changed."""

import hashlib
import importlib.metadata
import os
import shutil
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
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kernel-workbench-tests"
    root.mkdir(parents=True, exist_ok=True)
    for file in root.iterdir():
        with suppress(FileNotFoundError):  # another worker was first
            if file.stat().st_mtime < time.time() - SECONDS:
                shutil.rmtree(file) if file.is_dir() else file.unlink()
    return root


def machine_digest(*packages: str) -> str:
    """What of this machine decides a build for it: the processor's instructions, and the packages' versions."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = next((line for line in lines if line.startswith("flags")), "")
    content = "\0".join([flags, *map(importlib.metadata.version, packages)])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def cached_build(content: bytes, ending: str, build: Callable[[Path], object], where: Path | None = None) -> Path:
    """The file that `build` writes, once for each content, in the user's cache or in the folder `where`."""
    where = where or folder()
    file = where / f"{hashlib.sha256(content).hexdigest()[:32]}.{ending}"
    if file.exists():
        file.touch()
    else:
        with tempfile.TemporaryDirectory(dir=where) as scratch:
            build(fresh := Path(scratch) / file.name)
            fresh.replace(file)
    return file
