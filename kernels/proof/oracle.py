"""What a call is held against: the truth and torch's own answer, and how far from them an output may lie."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from kernels.ops import AttentionCase, Case, GroupedCase, LinearCase, LmHeadCase, RmsNormCase, StepAttentionCase
from kernels.proof import reference


class Failed(Exception):
    """The variant broke a rule; the message is the sentence."""


@dataclass(frozen=True)
class Margin:
    """One comparison: relative error, relative limit, and whether it holds."""

    error: float
    limit: float
    holds: bool

    @property
    def used(self) -> float:
        return self.error / self.limit if self.limit else math.inf


@dataclass
class Expected:
    """The float64 truth and torch's own answer for one call."""

    truth: reference.Outputs
    own: reference.Outputs
    rounding: float

    @property
    def shapes(self) -> list[tuple[torch.Size, torch.dtype]]:
        return [(each.shape, each.dtype) for each in self.own]

    def margins(self, position: int, output: torch.Tensor, when: str) -> list[Margin]:
        """The comparisons of one output; none for an empty one. Raises Failed for a wrong shape or a missing value."""
        truth = self.truth[position]
        if output.shape != truth.shape:
            raise Failed(f"It returned shape {list(output.shape)} where the op has {list(truth.shape)}.")
        return self._margins(position, output, when) if output.numel() else []

    @cached_property
    def _limits(self) -> list[tuple[float, float, float]]:
        """Of each output the largest value, and how large an error may be at most and in root mean square."""
        return [self._limits_of(*each) for each in zip(self.truth, self.own, strict=True)]

    def _limits_of(self, truth: torch.Tensor, own: torch.Tensor) -> tuple[float, float, float]:
        if not truth.numel():
            return 1.0, 0.0, 0.0
        torchs, largest = own.double() - truth, float(truth.abs().max())
        most = 2 * float(torchs.abs().max()) + self.rounding * largest
        return max(largest, 1e-300), most, 2 * rms(torchs) + self.rounding * rms(truth)

    def _margins(self, position: int, output: torch.Tensor, when: str) -> list[Margin]:
        missing = int((~torch.isfinite(output)).sum())
        if missing:
            raise Failed(
                f"{missing} of {output.numel()} values {when} are NaN or infinite: wrong, or never written "
                "(the output's memory was filled with NaN beforehand)."
            )
        difference = output.double() - self.truth[position]
        scale, most, spread = self._limits[position]
        found = ((float(difference.abs().max()), most), (rms(difference), spread))
        return [Margin(error / scale, limit / scale, error <= limit) for error, limit in found]


@dataclass
class ExpectedIds(Expected):
    """Next tokens: the error is how far the chosen logit lies below the best one."""

    logits: torch.Tensor

    def _margins(self, position: int, output: torch.Tensor, when: str) -> list[Margin]:
        if bool(((output < 0) | (output >= self.logits.shape[1])).any()):
            raise Failed(f"It returned a token {when} that is not in the vocabulary, or was never written.")
        best, scale = self.logits.max(dim=-1).values, float(self.logits.abs().max())
        short, torchs = (
            float((best - self.logits.gather(1, ids.long()[:, None])[:, 0]).max()) / max(scale, 1e-300)
            for ids in (output, self.own[position])
        )
        limit = 2 * torchs + self.rounding
        return [Margin(short, limit, short <= limit)]


@dataclass
class ExpectedDraws(Expected):
    """Drawn tokens: the error is how far the number that decided lies outside of the chosen token's share.

    A token that is not among those kept has its share at the end. The limit is twice torch's own error plus what
    float32 rounding of the logits does to a probability.
    """

    logits: torch.Tensor
    settings: dict[str, torch.Tensor]

    def _margins(self, position: int, output: torch.Tensor, when: str) -> list[Margin]:
        order, until, wanted = reference.distribution(self.logits, top_k=reference.TOP_K, **self.settings)
        off, torchs = (float(_outside(ids, order, until, wanted).max()) for ids in (output, self.own[position]))
        heat = self.settings["temperature"]
        coldest = float(heat[heat > 0].min()) if bool((heat > 0).any()) else 1.0
        single = torch.finfo(torch.float32).eps * math.sqrt(self.logits.shape[1])
        limit = 2 * torchs + single * max(1.0, float(self.logits.abs().max()) / coldest)
        return [Margin(off, limit, off <= limit)]


def _outside(ids: torch.Tensor, order: torch.Tensor, until: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Of each row, how far `wanted` lies outside of the share of its id (1 at the end where it has none)."""
    before = torch.cat([torch.zeros_like(until[:, :1]), until[:, :-1]], dim=1)
    found = order == ids.long()[:, None]
    low = torch.where(found, before, torch.zeros_like(before)).sum(dim=1)
    high = torch.where(found, until, torch.zeros_like(until)).sum(dim=1)
    missing = ~found.any(dim=1)
    low, high = low + missing.double(), high + missing.double()
    return (low - wanted).clamp_min(0) + (wanted - high).clamp_min(0)


def rounding(case: Case, arguments: dict[str, Any]) -> float:
    """The relative error that rounding alone may leave: half the epsilon of the case's dtype, or, where that is
    smaller, the random walk of a float32 sum over the longest reduction of the case, epsilon·√length.
    """
    match case:
        case LinearCase() | GroupedCase() | LmHeadCase():
            length = case.k
        case AttentionCase() | StepAttentionCase():
            length = max(case.head_dim, case.kv_len)
        case RmsNormCase():
            length = case.n
        case _:
            length = 1
    dtype = next(iter(arguments.values())).dtype
    return max(torch.finfo(dtype).eps / 2, torch.finfo(torch.float32).eps * math.sqrt(length))


def rms(values: torch.Tensor) -> float:
    return float(values.square().mean().sqrt())
