"""Whether another program held the GPU while something was measured, from what NVML tells of its processes.

NVML lists the processes that have a CUDA context on the GPU, with their memory. It does not tell whether such a
process computes just now, so one that only holds memory counts as well. Processes of another container are hidden
where ids are those of a namespace; then nothing can be told.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

GIB = 2**30


@dataclass(frozen=True)
class Sight:
    """What NVML told of a GPU at one moment.

    `processes`: the memory in bytes of each listed process by its id, None where it is not told. `own`: those ids among
    them that are of this program; empty where this process is not listed, as where ids are those of another namespace.
    """

    processes: dict[int, int | None]
    own: frozenset[int]

    @property
    def others(self) -> tuple[int, int] | None:
        """How many other programs were seen and their bytes; None where it cannot be told."""
        if not self.own:
            return None
        listed = [size or 0 for process, size in self.processes.items() if process not in self.own]
        return len(listed), sum(listed)


def summary(sights: Sequence[Sight], seconds_between: float) -> dict[str, float | int | None]:
    """The most other programs at once, how long any was seen, and their largest memory in GiB; None: not known.

    `seconds_between` is the time from one sight to the next, which each sight stands for.
    """
    told = [each.others for each in sights]
    known = [each for each in told if each is not None]
    if not known:
        return {"others_gpu_count": None, "others_gpu_seconds": None, "others_gpu_gib": None}
    seen = [each for each in known if each[0]]
    return {
        "others_gpu_count": max(count for count, _ in known),
        "others_gpu_seconds": round(len(seen) * seconds_between, 3),
        "others_gpu_gib": round(max((size for _, size in seen), default=0) / GIB, 2),
    }


def watcher(nvml: Any, *handles: Any) -> Callable[[], Sight | None]:
    """A function that looks once at the GPUs of NVML's `handles`, as one; it returns None where NVML tells nothing."""
    ours: dict[int, bool] = {os.getpid(): True}

    def look() -> Sight | None:
        processes: dict[int, int | None] = {}
        try:
            for handle in handles:
                for each in nvml.nvmlDeviceGetComputeRunningProcesses(handle):
                    known = processes.get(each.pid)
                    processes[each.pid] = each.usedGpuMemory if known is None else known + (each.usedGpuMemory or 0)
        except nvml.NVMLError:
            return None
        for process in processes.keys() - ours.keys():
            ours[process] = not is_other(process)
        listed = os.getpid() in processes
        return Sight(processes, frozenset(process for process in processes if listed and ours[process]))

    return look


def is_other(process: int) -> bool:
    """Whether the process of this id neither descends from this one nor this one from it.

    One that has ended does not count: NVML may list it a moment longer.
    """
    import psutil

    me = psutil.Process()
    try:
        other = psutil.Process(process)
        return other != me and me not in other.parents() and other not in me.parents()
    except psutil.Error:
        return False
