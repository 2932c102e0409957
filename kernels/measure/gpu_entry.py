"""The GPU entry of a device. Imports torch only when needed."""

from typing import TYPE_CHECKING

from kernels.hardware import GPUS, Gpu, class_of
from kernels.measure import nvml

if TYPE_CHECKING:
    import torch


def gpu_of(device: "torch.device") -> Gpu:
    """The device's GPU entry: the known one, or for an unknown GPU what its driver tells, with rates of 0."""
    import torch

    if device.type == "cpu":
        return GPUS["cpu"]
    name = torch.cuda.get_device_name(device)
    return GPUS.get(class_of(name)) or _entry_of_driver(device.index or 0)


def gpu_of_host() -> Gpu | None:
    """The entry of this host's GPUs where all are of one known class, without torch and without a CUDA context."""
    library = nvml.library()
    if library is None:
        return None
    handles = map(library.nvmlDeviceGetHandleByIndex, range(library.nvmlDeviceGetCount()))
    classes = {class_of(library.nvmlDeviceGetName(handle)) for handle in handles}
    return GPUS.get(classes.pop()) if len(classes) == 1 else None


def _entry_of_driver(index: int) -> Gpu:
    import torch

    properties, library = torch.cuda.get_device_properties(index), nvml.library()
    sm = 10 * properties.major + properties.minor
    watts = clock = tbps = 0.0
    if library is not None:
        handle = nvml.handle(index)
        watts = library.nvmlDeviceGetPowerManagementDefaultLimit(handle) / 1000
        clock = library.nvmlDeviceGetMaxClockInfo(handle, library.NVML_CLOCK_SM) / 1000
        memory_mhz = library.nvmlDeviceGetMaxClockInfo(handle, library.NVML_CLOCK_MEM)
        tbps = 2 * memory_mhz * library.nvmlDeviceGetMemoryBusWidth(handle) / 8 / 1e6  # two transfers a clock
    alike = next((gpu for gpu in GPUS.values() if gpu.sm == sm), None)
    return Gpu(
        class_of(properties.name), properties.name, sm, properties.multi_processor_count, 0, 0, tbps,
        properties.total_memory / 2**30, watts, clock, alike.matrix_flop_per_clock if alike else 0, "driver",
    )  # fmt: skip
