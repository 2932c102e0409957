"""The host's memory that a process may use: what the machine has, within its own and its control groups' limits."""

import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

GROUPS, OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Of versions 2 and 1: the limit, what is used, and which part of it, as `memory.stat` has it, gives way to others."""


def total_bytes(groups: Path = GROUPS, cgroup: Path = OWN) -> int:
    """The bytes that all processes of this one's container may have together."""
    return min([psutil.virtual_memory().total, *(limit for limit, _ in _limits(groups, cgroup))])


def free_bytes(groups: Path = GROUPS, cgroup: Path = OWN) -> int:
    """The bytes of them that are free, and that this process may take (RLIMIT_DATA)."""
    free = [psutil.virtual_memory().available, *(limit - used for limit, used in _limits(groups, cgroup))]
    data_limit = resource.getrlimit(resource.RLIMIT_DATA)[0]
    if data_limit != resource.RLIM_INFINITY:
        free.append(data_limit - psutil.Process().memory_info().data)
    return min(free)


def _limits(groups: Path, cgroup: Path) -> Iterator[tuple[int, int]]:
    """The limit of each control group around this process, and what is used of it."""
    with suppress(OSError):
        for line in cgroup.read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            if not kinds or "memory" in kinds.split(","):
                mount = groups / kinds
                directory = mount / path.lstrip("/")  # where a container sees its group as the root, there is none
                for group in (directory, *(parent for parent in directory.parents if parent.is_relative_to(mount))):
                    for limit, used, inactive in FILES:
                        with suppress(OSError, ValueError, KeyError):  # `max`, or the other version
                            stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
                            yield (
                                int((group / limit).read_text()),
                                int((group / used).read_text()) - int(stat[inactive]),
                            )
