"""The GPUs of this machine by `nvidia-smi`. This process does not import torch."""

import shutil
import subprocess
from dataclasses import dataclass

from kernels.hardware import GPUS, class_of


@dataclass(frozen=True)
class Device:
    """A GPU class and the value of CUDA_VISIBLE_DEVICES that shows this device alone; empty for the CPU."""

    gpu_class: str
    visible: str = ""


def find_devices() -> list[Device]:
    """The GPUs of known classes, one entry each; the CPU when there is none."""
    found: list[Device] = []
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=uuid,name", "--format=csv,noheader"]
        answer = subprocess.run(query, capture_output=True, text=True, timeout=30, check=False).stdout
        found = [device for line in answer.splitlines() if (device := _parse(line))]
    return found or [Device("cpu")]


def _parse(line: str) -> Device | None:
    uuid, _, name = (part.strip() for part in line.partition(","))
    gpu_class = class_of(name)
    return Device(gpu_class, uuid) if gpu_class in GPUS else None
