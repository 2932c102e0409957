"""The GPUs of this machine by `nvidia-smi`. This process does not import torch."""

import os
import shutil
import subprocess
from dataclasses import dataclass

from kernels.hardware import GPUS, class_of
from workers.documents.gpu_class import SEVERAL


@dataclass(frozen=True)
class Device:
    """A GPU class and the value of CUDA_VISIBLE_DEVICES that shows its GPUs alone; empty for the CPU."""

    gpu_class: str
    visible: str = ""


def find_devices() -> list[Device]:
    """The GPUs of known classes that CUDA_VISIBLE_DEVICES leaves, one entry each, then the classes of several that the
    first GPUs of one class make up; the CPU when there is none.
    """
    devices: list[Device] = []
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=index,uuid,name", "--format=csv,noheader"]
        answer = subprocess.run(query, capture_output=True, text=True, timeout=30, check=False).stdout
        devices = [device for line in answer.splitlines() if (device := _parse(line))]
    return [*devices, *_several(devices)] or [Device("cpu")]


def _several(devices: list[Device]) -> list[Device]:
    """The devices of several GPUs. Their workers and those of one GPU take turns, by a lock of each GPU."""
    worker_devices = []
    for name, (gpu_class, count) in SEVERAL.items():
        uuids = [device.visible for device in devices if device.gpu_class == gpu_class][:count]
        if len(uuids) == count:
            worker_devices.append(Device(name, ",".join(uuids)))
    return worker_devices


def _parse(line: str) -> Device | None:
    index, uuid, name = (field.strip() for field in line.split(",", 2))
    visible, gpu_class = os.environ.get("CUDA_VISIBLE_DEVICES"), class_of(name)
    if visible is not None and not {index, uuid} & {named.strip() for named in visible.split(",")}:
        return None
    return Device(gpu_class, uuid) if gpu_class in GPUS else None
