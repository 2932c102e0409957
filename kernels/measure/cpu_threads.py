"""Settings for torch's CPU threads: torch ignores a container's quota and counts hyper-threads. Imports no torch."""

import os
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

CPUS = Path("/sys/devices/system/cpu")
QUOTA = Path("/sys/fs/cgroup/cpu.max")
SPIN_COUNT = "20000"
"""How long an OpenMP thread spins at a barrier before it sleeps. libgomp's own 300,000 stalls a model by a factor of
10 to 100 as soon as another process wants a core; with 1,000 a small model takes twice its time on an idle machine."""


def thread_settings(outer: Mapping[str, str]) -> dict[str, str]:
    """Environment of a process that computes on the CPU, unless `outer` sets it. Apply before torch is imported."""
    settings = {"OMP_NUM_THREADS": str(usable_cores()), "GOMP_SPINCOUNT": SPIN_COUNT}
    return {name: outer.get(name, value) for name, value in settings.items()}


def usable_cores(cpus: Path = CPUS, quota: Path = QUOTA, affinity: Collection[int] | None = None) -> int:
    """Physical cores within the CPUs and the quota, at least 1: more threads slow small models 10 to 100 times."""
    allowed = os.sched_getaffinity(0) if affinity is None else affinity
    cores = {_core(cpus / f"cpu{number}" / "topology") or number for number in allowed}
    return max(1, min(len(cores), _quota(quota) or len(cores)))


def usable_cpus(quota: Path = QUOTA) -> int:
    """CPUs, hyper-threads too, within the cgroup's quota, at least 1: for processes that mostly wait."""
    count = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, min(count, _quota(quota) or count))


def _core(topology: Path) -> tuple[str, ...] | None:
    """Package and core of a CPU, or None if the kernel does not say."""
    try:
        return tuple((topology / name).read_text().strip() for name in ("physical_package_id", "core_id"))
    except OSError:
        return None


def _quota(path: Path) -> int:
    """Whole CPUs of a cgroup v2 quota such as `150000 100000`; 0 if unlimited."""
    try:
        quota, period = path.read_text().split()
    except (OSError, ValueError):
        return 0
    return 0 if quota == "max" else max(1, int(quota) // int(period))
