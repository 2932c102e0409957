"""How many threads a CPU stage can really run at once: torch counts neither a container's quota nor hyper-threads."""

import os
from collections.abc import Collection
from pathlib import Path

CPUS = Path("/sys/devices/system/cpu")
QUOTA = Path("/sys/fs/cgroup/cpu.max")


def usable_cores(cpus: Path = CPUS, quota: Path = QUOTA, affinity: Collection[int] | None = None) -> int:
    """Physical cores among the CPUs that this process may use, at most the cgroup's quota; at least 1.

    More threads than that wait for each other at every barrier, which slows a small model by a factor of 10 to 100.
    """
    allowed = os.sched_getaffinity(0) if affinity is None else affinity
    cores = {_core(cpus / f"cpu{number}" / "topology") or number for number in allowed}
    return max(1, min(len(cores), _quota(quota) or len(cores)))


def _core(topology: Path) -> tuple[str, ...] | None:
    """Package and core of a CPU, or None where the kernel does not tell."""
    try:
        return tuple((topology / name).read_text().strip() for name in ("physical_package_id", "core_id"))
    except OSError:
        return None


def _quota(path: Path) -> int:
    """Whole CPUs of a cgroup v2 quota such as `150000 100000`; 0 when there is none."""
    try:
        most, period = path.read_text().split()
    except (OSError, ValueError):
        return 0
    return 0 if most == "max" else max(1, int(most) // int(period))
