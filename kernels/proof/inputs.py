"""Random test inputs of every op, in the layouts of the registry and in three magnitudes."""

from typing import Any, Literal

import torch

from kernels.dtypes import DTYPES
from kernels.ops.base import BaseCase

Magnitude = Literal["normal", "large", "tiny"]
KINDS: tuple[Magnitude, ...] = ("normal", "large", "tiny")

MAGNITUDES: dict[Magnitude, float] = {"normal": 1.0, "large": 16.0, "tiny": 1e-3}
"""Standard deviation of the activations; `large` keeps products of two inside the range of fp16."""


class Maker:
    """Draws tensors on one device from one seed."""

    def __init__(self, device: torch.device | str, seed: int, dtype: torch.dtype) -> None:
        self.device = torch.device(device)
        self.dtype, self.seed = dtype, seed
        self.generator = torch.Generator(self.device).manual_seed(seed)

    def normal(self, *shape: int, scale: float = 1.0) -> torch.Tensor:
        """Normal values of standard deviation `scale`, drawn in float32 and rounded to the dtype."""
        drawn = torch.randn(shape, generator=self.generator, device=self.device, dtype=torch.float32)
        return drawn.mul_(scale).to(self.dtype)

    def uniform(self, *shape: int) -> torch.Tensor:
        """float32 from 0 to 1."""
        return torch.rand(shape, generator=self.generator, device=self.device)

    def integers(self, low: int, high: int, *shape: int) -> torch.Tensor:
        """int64 from low to high - 1."""
        return torch.randint(low, high, shape, generator=self.generator, device=self.device)


def draw(case: BaseCase, device: torch.device | str, seed: int, kind: Magnitude = "normal") -> dict[str, Any]:
    """Random arguments of one call, different for each seed. Raises ValueError for a whole model."""
    dtype = DTYPES[getattr(case, "dtype", "fp32")]
    return case.inputs(Maker(device, seed, dtype), MAGNITUDES[kind])
