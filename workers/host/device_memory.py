"""The GPUs that this worker sees, and the memory that it has for a model. Asks nvidia-smi, not torch."""

import os
import subprocess
from collections.abc import Sequence
from functools import cache

from workers.documents.gpu_class import gpus_of

GIB = 2**30
QUERY = ["nvidia-smi", "--query-gpu=index,uuid,memory.total", "--format=csv,noheader,nounits"]


@cache
def visible_gpus() -> dict[str, float | None]:
    """By UUID, the GiB of each GPU that CUDA_VISIBLE_DEVICES leaves; empty where the driver does not tell."""
    try:
        listed = subprocess.run(QUERY, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    return parse_memory(listed, os.environ.get("CUDA_VISIBLE_DEVICES"))


def parse_memory(listed: str, visible: str | None) -> dict[str, float | None]:
    """GiB by UUID in nvidia-smi's answer to QUERY, of the GPUs that CUDA_VISIBLE_DEVICES names where it is set."""
    names = None if visible is None else {name.strip() for name in visible.split(",")}
    gpus: dict[str, float | None] = {}
    for line in listed.splitlines():
        index, uuid, mebibytes = (part.strip() for part in line.split(","))
        if names is None or {index, uuid} & names:
            gpus[uuid] = round(int(mebibytes) / 1024, 2) if mebibytes.isdigit() else None
    return gpus


def gpus_for(gpu_class: str, visible: Sequence[str]) -> list[str]:
    """The UUIDs of the GPUs that a stage of the class gets: as many as the class has, and all of them for a class of
    one, whose worker is shown one. Raises ValueError where a class of several has fewer.
    """
    if gpu_class == "cpu":
        return []
    if (count := gpus_of(gpu_class)) == 1:
        return list(visible)
    if len(visible) < count:
        raise ValueError(f"class {gpu_class} takes {count} GPUs, and this worker sees {len(visible)}")
    return list(visible[:count])


def memory_gib(gpu_classes: list[str], stage_memory_bytes: int) -> float | None:
    """GiB of the smallest visible GPU, or on a CPU what a stage may take; None when the driver does not tell."""
    if gpu_classes == ["cpu"]:
        return round(stage_memory_bytes / GIB, 2)
    return min((gib for gib in visible_gpus().values() if gib is not None), default=None)
