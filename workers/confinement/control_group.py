"""Control groups for one stage, versions 1 and 2: the memory and the processes of all that runs in them."""

import contextlib
import os
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PREFIX = "workbench-stage-"
FILES = {"memory": ("memory.limit_in_bytes", "memory.max"), "pids": ("pids.max", "pids.max")}
"""The file of each limit, in versions 1 and 2."""


class ControlGroup:
    """A group below this process's own for each kind of limit that can be set; `limited` names them."""

    def __init__(self, limits: dict[str, int]) -> None:
        """`limits`: bytes of `memory`, number of `pids`; what cannot be limited is left out."""
        self._directories: list[Path] = []
        self.limited: set[str] = set()
        for kind, limit in limits.items():
            with contextlib.suppress(OSError, ValueError):
                self._limit(kind, limit)

    def enter(self) -> None:
        """Put this process into the groups. Raises OSError."""
        for directory in self._directories:
            (directory / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self, seconds: float = 1) -> None:
        """Remove the groups once the processes in them are gone."""
        end = time.monotonic() + seconds
        for directory in self._directories:
            while directory.exists() and time.monotonic() < end:
                with contextlib.suppress(OSError):
                    directory.rmdir()
                    break
                time.sleep(0.01)

    def _limit(self, kind: str, limit: int) -> None:
        parent, file = _place(kind)
        _remove_left(parent)
        directory = parent / f"{PREFIX}{os.getpid()}"
        directory.mkdir(exist_ok=True)
        if directory not in self._directories:
            self._directories.append(directory)
        (directory / file).write_text(str(limit))
        self.limited.add(kind)


def _place(kind: str) -> tuple[Path, str]:
    """The directory for groups with this limit, and the limit's file. Raises OSError where there is none."""
    groups = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    old, new = FILES[kind]
    for _, kinds, path in groups:
        if kind in kinds.split(","):
            return _visible(ROOT / kinds, path), old
    path = next((path for _, kinds, path in groups if not kinds), "/")
    parent = _visible(ROOT, path)
    if kind not in (parent / "cgroup.subtree_control").read_text().split():
        (parent / "cgroup.subtree_control").write_text(f"+{kind}")
    return parent, new


def _visible(mount: Path, path: str) -> Path:
    """The group's directory; a container may see its own group as the root."""
    directory = mount / path.lstrip("/")
    return directory if directory.is_dir() else mount


def _remove_left(parent: Path) -> None:
    """Remove the groups of guards that were killed; a group with processes stays."""
    for directory in parent.glob(f"{PREFIX}*"):
        if not Path("/proc", directory.name.removeprefix(PREFIX)).exists():
            with contextlib.suppress(OSError):
                directory.rmdir()
