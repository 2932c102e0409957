"""The current GPU of both libraries that launch kernels here, and memory that GPUs share."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@contextmanager
def device_guard(device: "torch.device") -> Iterator[None]:
    """Makes a GPU the current one of torch and of CuPy; does nothing for a CPU."""
    if device.type != "cuda":
        yield
        return
    import cupy
    import torch

    with torch.cuda.device(device), cupy.cuda.Device(device.index):
        yield


def enable_peer_access(gpus: "Sequence[torch.device]") -> None:
    """Lets every GPU read and write the memory of every other. Raises ValueError naming two that cannot."""
    import torch

    for one in gpus:
        for other in gpus:
            if one == other:
                continue
            if not torch.cuda.can_device_access_peer(one, other):
                raise ValueError(f"gpus: {one} cannot reach the memory of {other}")
            torch.zeros(1, device=one).to(other)  # torch maps the memory of `other` before its first copy
