"""The memory that this worker has for a model."""

import os
import subprocess

GIB = 2**30
QUERY = ["nvidia-smi", "--query-gpu=index,uuid,memory.total", "--format=csv,noheader,nounits"]


def memory_gib(gpu_classes: list[str], stage_memory_bytes: int) -> float | None:
    """GiB of the smallest visible GPU, or on a CPU what a stage may take; None when the driver does not tell."""
    if gpu_classes == ["cpu"]:
        return round(stage_memory_bytes / GIB, 2)
    try:
        listed = subprocess.run(QUERY, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return smallest(listed, os.environ.get("CUDA_VISIBLE_DEVICES"))


def smallest(listed: str, visible: str | None) -> float | None:
    """GiB of the smallest GPU of nvidia-smi's answer to QUERY, among those of CUDA_VISIBLE_DEVICES where it is set."""
    wanted = None if visible is None else {each.strip() for each in visible.split(",")}
    found = []
    for line in listed.splitlines():
        index, uuid, mebibytes = (part.strip() for part in line.split(","))
        if mebibytes.isdigit() and (wanted is None or {index, uuid} & wanted):
            found.append(int(mebibytes) / 1024)
    return round(min(found), 2) if found else None
