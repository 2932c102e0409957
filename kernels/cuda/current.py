"""The current GPU of both libraries that launch kernels here."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@contextmanager
def current(device: "torch.device") -> Iterator[None]:
    """Makes a GPU the current one of torch and of CuPy; does nothing for a CPU."""
    if device.type != "cuda":
        yield
        return
    import cupy
    import torch

    with torch.cuda.device(device), cupy.cuda.Device(device.index):
        yield
