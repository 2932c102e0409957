"""Whether another program held the GPU while something was measured: NVML lists processes with a CUDA context and their
memory, also idle ones, but none of other containers where ids are of a namespace; then nothing is told.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

GIB = 2**30
_root: int | None = None


@dataclass(frozen=True)
class GpuSnapshot:
    """What NVML told of a GPU: the memory in bytes of `processes` by id, None where not told; `own` ids are of this
    program, empty where ids are of another namespace.
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


def summary(snapshots: Sequence[GpuSnapshot], seconds_between: float) -> dict[str, float | int | None]:
    """The most other programs at once, how long any was seen, their most GiB; None: not known."""
    counts = [snapshot.others for snapshot in snapshots]
    measured = [others for others in counts if others is not None]
    if not measured:
        return {"others_gpu_count": None, "others_gpu_seconds": None, "others_gpu_gib": None}
    seen = [others for others in measured if others[0]]
    return {
        "others_gpu_count": max(count for count, _ in measured),
        "others_gpu_seconds": round(len(seen) * seconds_between, 3),
        "others_gpu_gib": round(max((size for _, size in seen), default=0) / GIB, 2),
    }


def snapshot_reader(nvml: Any, *handles: Any) -> Callable[[], GpuSnapshot | None]:
    """A function that takes one snapshot of the GPUs of NVML's `handles` together, or None where NVML tells nothing."""
    ours: dict[int, bool] = {os.getpid(): True}

    def snapshot() -> GpuSnapshot | None:
        processes: dict[int, int | None] = {}
        try:
            for handle in handles:
                for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle):
                    size, before = process.usedGpuMemory, processes.get(process.pid)
                    processes[process.pid] = size if before is None else before + (size or 0)
        except nvml.NVMLError:
            return None
        for pid in processes.keys() - ours.keys():
            ours[pid] = not is_other(pid)
        listed = os.getpid() in processes
        return GpuSnapshot(processes, frozenset(pid for pid in processes if listed and ours[pid]))

    return snapshot


def set_root(process: int) -> None:
    """Count the descendants of this ancestor, and not this process's alone, as one program from now on."""
    global _root
    _root = process


def is_other(process: int) -> bool:
    """Whether a process is neither ancestor nor descendant of this or the root set, and has not ended."""
    import psutil

    me = psutil.Process()
    try:
        other = psutil.Process(process)
        return not {me.pid, _root} & {value.pid for value in (other, *other.parents())} and other not in me.parents()
    except psutil.Error:
        return False
