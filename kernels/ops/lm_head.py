"""The LM head: the next token without the logits. Imports without torch."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from kernels.ops.base import BLOCK_ELEMENTS, BYTES, MATRIX_RATE, Arguments, BaseCase, DType, Outputs, Sampling, Weights
from kernels.ops.oracle import Failed, Oracle, Tolerance

if TYPE_CHECKING:
    from torch import Tensor

    from kernels.proof.inputs import Maker

TOP_K = 50
"""The candidates that sampling keeps where the call does not say."""


class LmHeadCase(BaseCase):
    """Next token of h[m, k] · w[vocab, k]ᵀ without writing the logits."""

    part = "the LM head"
    torch_variants = ("torch_lm_head",)
    packs_weight = True

    op: Literal["lm_head"] = "lm_head"
    m: int = Field(ge=0)
    vocab: int = Field(gt=0)
    k: int = Field(gt=0)
    sampling: Sampling = "argmax"
    dtype: DType = "bf16"
    weights: Weights = "bf16"

    @property
    def shape_label(self) -> str:
        return f"the head, {self.vocab}×{self.k}"

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.vocab * self.k

    @property
    def least_bytes(self) -> float:
        return self.vocab * self.k * BYTES[self.weights] + self.m * self.k * BYTES[self.dtype] + 4 * self.m

    @property
    def matrix_precision(self) -> str:
        return max(self.weights, self.dtype, key=lambda name: MATRIX_RATE[name])

    def inputs(self, make: "Maker", scale: float) -> Arguments:
        x = make.normal(self.m, self.k, scale=scale)
        found = {"x": x, "w": make.normal(self.vocab, self.k, scale=1 / math.sqrt(self.k))}
        return found | (_settings(self.m, make) if self.sampling != "argmax" else {})

    def reference(self, arguments: Arguments) -> Outputs:
        found = logits(arguments["x"], arguments["w"])
        if self.sampling == "argmax":
            return (found.argmax(dim=-1),)
        settings = {name: arguments[name] for name in ("temperature", "top_p", "seed")}
        return (sample(found, **settings),)

    @property
    def longest_sum(self) -> int:
        return self.k

    def continuous(self, arguments: Arguments) -> "Tensor":
        return logits(arguments["x"].double(), arguments["w"].double())

    def oracle(self, truth: Outputs, own: Outputs, rounding: float, used: Arguments, drawn: Arguments) -> Oracle:
        found = self.continuous(used)
        if self.sampling == "argmax":
            return ArgmaxOracle(truth, own, rounding, found)
        settings = {name: drawn[name] for name in ("temperature", "top_p", "seed")}
        return SampledOracle(truth, own, rounding, found, settings)


def logits(x: "Tensor", w: "Tensor") -> "Tensor":
    """x [m, k] · w [vocab, k]ᵀ, [m, vocab], in x's dtype, by blocks of the vocabulary."""
    import torch

    rows = max(1, BLOCK_ELEMENTS // max(1, x.shape[-1]))
    return torch.cat([x @ block.to(x.dtype).T for block in w.split(rows)], dim=-1)


def sample(logits: "Tensor", temperature: Any, top_p: Any, seed: Any, top_k: int = TOP_K) -> "Tensor":
    """ids [m] int64 drawn from logits [m, vocab], as `LmHeadSkinny.build` says; the settings are [m]."""
    order, until, wanted = distribution(logits, temperature, top_p, seed, top_k)
    place = (until <= wanted[:, None]).sum(dim=1).clamp(max=order.shape[1] - 1)
    return order.gather(1, place[:, None])[:, 0]


def distribution(
    logits: "Tensor", temperature: Any, top_p: Any, seed: Any, top_k: int
) -> "tuple[Tensor, Tensor, Tensor]":
    """Of each row: its top_k tokens in falling order [m, top_k], the probability up to each of those that are kept
    (1 from the last kept one on), and the number in [0, 1) that decides. At temperature 0 only the first is kept.
    """
    import torch

    best, order = logits.double().topk(min(top_k, logits.shape[1]), dim=1)
    heat = temperature.double()[:, None]
    share = torch.softmax((best - best[:, :1]) / heat.clamp_min(1e-30), dim=1)
    until = share.cumsum(dim=1)
    kept = (until - share < top_p.double()[:, None]) & (heat > 0)
    kept[:, 0] = True
    until = (share * kept).cumsum(dim=1)
    until = torch.where(kept, until / until[:, -1:], torch.ones_like(until))
    return order, until, uniform(seed)


def uniform(seed: "Tensor") -> "Tensor":
    """splitmix64 (Steele, Lea and Flood, OOPSLA 2014) of each int64 seed: its upper 24 bits as float64 in [0, 1)."""
    z = seed + -0x61C8864680B583EB  # 0x9e3779b97f4a7c15
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15)):
        z = (z ^ z >> shift & (1 << 64 - shift) - 1) * factor  # 0xbf58476d1ce4e5b9, 0x94d049bb133111eb
    return ((z ^ z >> 31 & (1 << 33) - 1) >> 40 & (1 << 24) - 1).double() / (1 << 24)


def _settings(m: int, make: "Maker") -> Arguments:
    """Temperatures, top_p and seeds of m rows; every fourth row is greedy."""
    import torch

    draw = torch.Generator().manual_seed(m + make.seed)
    temperature = 0.5 + torch.rand(m, generator=draw)
    temperature[3::4] = 0
    found = {
        "temperature": temperature,
        "top_p": 0.5 + torch.rand(m, generator=draw) / 2,
        "seed": torch.randint(-(2**62), 2**62, (m,), generator=draw),
    }
    return {name: value.to(make.device) for name, value in found.items()}


@dataclass
class ArgmaxOracle(Oracle):
    """Next tokens: the error is how far the chosen logit lies below the best one."""

    logits: "Tensor"

    def _compare(self, position: int, output: "Tensor", when: str) -> list[Tolerance]:
        if bool(((output < 0) | (output >= self.logits.shape[1])).any()):
            raise Failed(f"It returned a token {when} that is not in the vocabulary, or was never written.")
        best, scale = self.logits.max(dim=-1).values, float(self.logits.abs().max())
        short, torchs = (
            float((best - self.logits.gather(1, ids.long()[:, None])[:, 0]).max()) / max(scale, 1e-300)
            for ids in (output, self.own[position])
        )
        limit = 2 * torchs + self.rounding
        return [Tolerance(short, limit, short <= limit)]


@dataclass
class SampledOracle(Oracle):
    """Drawn tokens: the error is how far the number that decided lies outside of the chosen token's share.

    A token that is not among those kept has its share at the end. The limit is twice torch's own error plus what
    float32 rounding of the logits does to a probability.
    """

    logits: "Tensor"
    settings: Arguments

    def _compare(self, position: int, output: "Tensor", when: str) -> list[Tolerance]:
        import torch

        order, until, wanted = distribution(self.logits, top_k=TOP_K, **self.settings)
        off, torchs = (float(_outside(ids, order, until, wanted).max()) for ids in (output, self.own[position]))
        heat = self.settings["temperature"]
        coldest = float(heat[heat > 0].min()) if bool((heat > 0).any()) else 1.0
        single = torch.finfo(torch.float32).eps * math.sqrt(self.logits.shape[1])
        limit = 2 * torchs + single * max(1.0, float(self.logits.abs().max()) / coldest)
        return [Tolerance(off, limit, off <= limit)]


def _outside(ids: "Tensor", order: "Tensor", until: "Tensor", wanted: "Tensor") -> "Tensor":
    """Of each row, how far `wanted` lies outside of the share of its id (1 at the end where it has none)."""
    import torch

    before = torch.cat([torch.zeros_like(until[:, :1]), until[:, :-1]], dim=1)
    found = order == ids.long()[:, None]
    low = torch.where(found, before, torch.zeros_like(before)).sum(dim=1)
    high = torch.where(found, until, torch.zeros_like(until)).sum(dim=1)
    missing = ~found.any(dim=1)
    low, high = low + missing.double(), high + missing.double()
    return (low - wanted).clamp_min(0) + (wanted - high).clamp_min(0)
