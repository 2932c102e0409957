"""Whether another program held the GPU while something was measured, from what NVML tells of its processes and memory.

NVML lists the processes that have a CUDA context on the GPU, with their memory. It does not tell whether such a
process computes just now, so one that only holds memory counts as well.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

GIB = 2**30
LISTED_SLACK = 2 * GIB
"""Bytes in use that the listed processes may lack, for the driver's own, where NVML tells the memory of each."""
UNLISTED_SLACK = 4 * GIB
"""Bytes in use beyond torch's that may be ours, for contexts and libraries, where NVML does not list this process."""


@dataclass(frozen=True)
class Sight:
    """What NVML told of a GPU at one moment. Memory in bytes; None where it is not told.

    `processes`: the memory of each listed process by its id. `own`: those ids among them that are of this program;
    empty where this process is not listed, as where ids are those of another namespace.
    `used`: of the whole GPU; `reserved`: by torch in this process.
    """

    processes: dict[int, int | None]
    own: frozenset[int]
    used: int | None = None
    reserved: int | None = None

    @property
    def others(self) -> tuple[int, int] | None:
        """How many other programs were seen and their bytes; None where it cannot be told.

        Programs of another container may be hidden from the list: their memory is then counted as one program.
        """
        if not self.own:
            return self._hidden(self.reserved, UNLISTED_SLACK)
        listed = [size or 0 for process, size in self.processes.items() if process not in self.own]
        if listed:
            return len(listed), sum(listed)
        sizes = [size for size in self.processes.values() if size is not None]
        known = sum(sizes) if len(sizes) == len(self.processes) else None
        return self._hidden(known, LISTED_SLACK) or (0, 0)

    def _hidden(self, ours: int | None, slack: int) -> tuple[int, int] | None:
        if self.used is None or ours is None:
            return None
        beyond = self.used - ours
        return (1, beyond) if beyond > slack else (0, 0)


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


def watcher(nvml: Any, handle: Any) -> Callable[[], Sight | None]:
    """A function that looks at the GPU of NVML's `handle` once; it returns None where NVML tells nothing."""
    import torch

    ours: dict[int, bool] = {os.getpid(): True}

    def look() -> Sight | None:
        try:
            processes = {each.pid: each.usedGpuMemory for each in nvml.nvmlDeviceGetComputeRunningProcesses(handle)}
            used = _used(nvml, handle)
        except nvml.NVMLError:
            return None
        for process in processes.keys() - ours.keys():
            ours[process] = is_family(process)
        if os.getpid() not in processes:
            return Sight(processes, frozenset(), used, int(torch.cuda.memory_reserved()))
        return Sight(processes, frozenset(process for process in processes if ours[process]), used)

    return look


def is_family(process: int) -> bool:
    """Whether the process of this id descends from this one, or this one from it. One that cannot be found does not."""
    import psutil

    me = psutil.Process()
    try:
        other = psutil.Process(process)
        return me in other.parents() or other in me.parents()
    except psutil.Error:
        return False


def _used(nvml: Any, handle: Any) -> int:
    """Bytes in use, by the second version of NVML's answer, which leaves out what the driver reserves."""
    version = getattr(nvml, "nvmlMemory_v2", None)
    told = nvml.nvmlDeviceGetMemoryInfo(handle) if version is None else nvml.nvmlDeviceGetMemoryInfo(handle, version)
    return int(told.used)
