"""The oracle of a call: the truth, torch's own answer, and the tolerance that they give. Imports without torch."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


class Failed(Exception):
    """The variant broke a rule; the message is the sentence."""


@dataclass(frozen=True)
class ErrorComparison:
    """One comparison: relative error, relative limit, and whether it holds."""

    error: float
    limit: float
    holds: bool

    @property
    def used(self) -> float:
        """The share of the limit that the error takes."""
        return self.error / self.limit if self.limit else math.inf


@dataclass
class Oracle:
    """The float64 truth and torch's own answer for one call; `rounding` is the relative error of one rounding."""

    truth: "tuple[torch.Tensor, ...]"
    own: "tuple[torch.Tensor, ...]"
    rounding: float

    @property
    def shapes(self) -> "list[tuple[torch.Size, torch.dtype]]":
        return [(tensor.shape, tensor.dtype) for tensor in self.own]

    def compare_all(self, outputs: "Sequence[torch.Tensor]", when: str) -> Iterator[ErrorComparison]:
        """The comparisons of all outputs. Raises Failed for another number of outputs, and as `compare`."""
        if len(outputs) != len(self.truth):
            raise Failed(f"It returned {len(outputs)} outputs where the op has {len(self.truth)}.")
        for position, output in enumerate(outputs):
            yield from self.compare(position, output, when)

    def compare(self, position: int, output: "torch.Tensor", when: str) -> list[ErrorComparison]:
        """The comparisons of one output; none for an empty one. Raises Failed for a wrong shape or a missing value."""
        truth = self.truth[position]
        if output.shape != truth.shape:
            raise Failed(f"It returned shape {list(output.shape)} where the op has {list(truth.shape)}.")
        return self._compare(position, output, when) if output.numel() else []

    @cached_property
    def _limits(self) -> list[tuple[float, float, float]]:
        """For each output: its largest value, and the largest allowed error, at most and in root mean square."""
        return [self._limits_of(*outputs) for outputs in zip(self.truth, self.own, strict=True)]

    def _limits_of(self, truth: "torch.Tensor", own: "torch.Tensor") -> tuple[float, float, float]:
        if not truth.numel():
            return 1.0, 0.0, 0.0
        torchs, largest = own.double() - truth, float(truth.abs().max())
        most = 2 * float(torchs.abs().max()) + self.rounding * largest
        return max(largest, 1e-300), most, 2 * rms(torchs) + self.rounding * rms(truth)

    def _compare(self, position: int, output: "torch.Tensor", when: str) -> list[ErrorComparison]:
        missing = int((~output.isfinite()).sum())
        if missing:
            raise Failed(
                f"{missing} of {output.numel()} values {when} are NaN or infinite: wrong, or never written "
                "(the output's memory was filled with NaN beforehand)."
            )
        difference = output.double() - self.truth[position]
        scale, most, spread = self._limits[position]
        errors = ((float(difference.abs().max()), most), (rms(difference), spread))
        return [ErrorComparison(error / scale, limit / scale, error <= limit) for error, limit in errors]


def rms(values: "torch.Tensor") -> float:
    """The root mean square."""
    return float(values.square().mean().sqrt())
