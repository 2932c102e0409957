"""NVIDIA's management library, where it is installed. Imports torch only when needed."""

from functools import cache
from typing import Any


@cache
def library() -> Any:
    """The library, started, or None where it is missing."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # not installed, or no driver
        return None
    return pynvml


def handle(index: int) -> Any:
    """The library's handle of a visible GPU, or None without the library."""
    import torch

    device = library()
    return device and device.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(index).uuid}")


def number(index: int = 0) -> int | None:
    """The library's number of torch's GPU `index`, which is that of the PCI bus's order; None without the library."""
    device = handle(index)
    return int(library().nvmlDeviceGetIndex(device)) if device else None
