"""The LM head: the next token without the logits. Imports without torch."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field

from kernels.ops.base import (
    BLOCK_ELEMENTS,
    BYTES,
    MATRIX_RATE,
    Arguments,
    BaseCase,
    DType,
    Outputs,
    SamplingKind,
    Weights,
)
from kernels.ops.oracle import ErrorComparison, Failed, Oracle
from kernels.ops.sampling import Sampling as RowSampling
from kernels.ops.sampling import gumbel, sample_token

if TYPE_CHECKING:
    from torch import Tensor

    from kernels.proof.inputs import Maker

TOP_K = 50
"""The candidates that sampling keeps where the call does not say."""

SETTING_DTYPES = {"temperature": "float32", "top_p": "float32", "seed": "int64", "stream": "int64", "index": "int64"}
"""What a sampled LM head is given beside x and w, [m] each, and torch's name of its dtype. They are the fields of
`kernels.ops.sampling.Sampling` and the drawn token's index in its sequence; a seed's bits count as unsigned."""


class LmHeadCase(BaseCase):
    """Next token of h[m, k] · w[vocab, k]ᵀ without writing the logits."""

    part = "the LM head"
    torch_variants = ("torch_lm_head",)
    packs_weight = True
    constant = ("w", *SETTING_DTYPES)

    op: Literal["lm_head"] = "lm_head"
    m: int = Field(ge=0)
    vocab: int = Field(gt=0)
    k: int = Field(gt=0)
    sampling: SamplingKind = "argmax"
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
        arguments = {"x": x, "w": make.normal(self.vocab, self.k, scale=1 / math.sqrt(self.k))}
        return arguments | (_settings(self.m, make) if self.sampling != "argmax" else {})

    def reference(self, arguments: Arguments) -> Outputs:
        scores = logits(arguments["x"], arguments["w"])
        if self.sampling == "argmax":
            return (scores.masked_fill(scores.isnan(), -math.inf).argmax(dim=-1),)
        return (sample(scores, {name: arguments[name] for name in SETTING_DTYPES}),)

    @property
    def longest_sum(self) -> int:
        return self.k

    def continuous(self, arguments: Arguments) -> "Tensor":
        return logits(arguments["x"].double(), arguments["w"].double())

    def oracle(self, truth: Outputs, own: Outputs, rounding: float, used: Arguments, drawn: Arguments) -> Oracle:
        scores = self.continuous(used)
        if self.sampling == "argmax":
            return ArgmaxOracle(truth, own, rounding, scores)
        return SampledOracle(truth, own, rounding, scores, {name: drawn[name] for name in SETTING_DTYPES})


def logits(x: "Tensor", w: "Tensor") -> "Tensor":
    """x [m, k] · w [vocab, k]ᵀ, [m, vocab], in x's dtype, by blocks of the vocabulary."""
    import torch

    rows = max(1, BLOCK_ELEMENTS // max(1, x.shape[-1]))
    return torch.cat([x @ block.to(x.dtype).T for block in w.split(rows)], dim=-1)


def sample(logits: "Tensor", settings: Arguments, top_k: int = TOP_K) -> "Tensor":
    """ids [m] int64 that `kernels.ops.sampling.choose` draws from logits [m, vocab], rounded to float32."""
    import torch

    rows = zip(logits.float().cpu().numpy(), samplings(settings, top_k), strict=True)
    drawn = [sample_token(row, how, index) for row, (how, index) in rows]
    return torch.tensor(drawn, dtype=torch.int64, device=logits.device)


def samplings(settings: Arguments, top_k: int) -> list[tuple[RowSampling, int]]:
    """How each row is drawn, and the index of its token."""
    rows = zip(*(settings[name].tolist() for name in SETTING_DTYPES), strict=True)
    return [
        (RowSampling(heat, top_k, top_p, seed % (1 << 64), stream), index) for heat, top_p, seed, stream, index in rows
    ]


def _settings(m: int, make: "Maker") -> Arguments:
    """Settings of m rows, each row with its own; every fourth row is greedy."""
    import torch

    draw = torch.Generator().manual_seed(m + make.seed)
    temperature = 0.5 + torch.rand(m, generator=draw)
    temperature[3::4] = 0
    settings = {
        "temperature": temperature,
        "top_p": 0.5 + torch.rand(m, generator=draw) / 2,
        "seed": torch.randint(-(2**62), 2**62, (m,), generator=draw),
        "stream": torch.randint(0, 2**32, (m,), generator=draw),
        "index": torch.randint(0, 2**31, (m,), generator=draw),
    }
    return {name: value.to(make.device) for name, value in settings.items()}


@dataclass
class ArgmaxOracle(Oracle):
    """Next tokens: the error is how far the chosen logit lies below the best one."""

    logits: "Tensor"

    def _compare(self, position: int, output: "Tensor", when: str) -> list[ErrorComparison]:
        _check_ids(output, self.logits.shape[1], when)
        best, scale = self.logits.max(dim=-1).values, float(self.logits.abs().max())
        short, torchs = (
            float((best - self.logits.gather(1, ids.long()[:, None])[:, 0]).max()) / max(scale, 1e-300)
            for ids in (output, self.own[position])
        )
        limit = 2 * torchs + self.rounding
        return [ErrorComparison(short, limit, short <= limit)]


@dataclass
class SampledOracle(Oracle):
    """Drawn tokens: the error is the smallest change of scores and shares that makes the token right, the limit twice
    torch's, plus float32's rounding of a logit over its temperature and of the noise, at most 23.
    """

    logits: "Tensor"
    settings: Arguments

    def _compare(self, position: int, output: "Tensor", when: str) -> list[ErrorComparison]:
        import torch

        _check_ids(output, self.logits.shape[1], when)
        off, torchs = (float(_off(ids, self.logits, self.settings).max()) for ids in (output, self.own[position]))
        heat = self.settings["temperature"]
        coldest = float(heat[heat > 0].min()) if bool((heat > 0).any()) else 1.0
        size = math.sqrt(self.logits.shape[1]) * max(1.0, float(self.logits.abs().max()) / coldest)
        limit = 2 * torchs + torch.finfo(torch.float32).eps * (23 + size)
        return [ErrorComparison(off, limit, off <= limit)]


def _check_ids(ids: "Tensor", vocab: int, when: str) -> None:
    if bool(((ids < 0) | (ids >= vocab)).any()):
        raise Failed(f"It returned a token {when} that is not in the vocabulary, or was never written.")


def _off(ids: "Tensor", logits: "Tensor", settings: Arguments, top_k: int = TOP_K) -> "Tensor":
    """By how much the id of each row is wrong [m]; logits [m, vocab] are float64.

    An id is wrong by as much as it lies outside of what is kept. It is also wrong by the lead in score of any other
    token, or by that token's margin inside of what is kept, if this is less: a change of that size drops the token.
    """
    import torch

    heat, top_p = (settings[name].double()[:, None] for name in ("temperature", "top_p"))
    scaled = logits / torch.where(heat > 0, heat, 1.0)
    best, order = scaled.topk(min(top_k + 1, logits.shape[1]))
    beyond = best[:, top_k:] if best.shape[1] > top_k else torch.full_like(best[:, :1], -math.inf)
    best, order = best[:, :top_k], order[:, :top_k]
    probs = torch.softmax(best, dim=1)
    tokens = torch.cat([order, ids.long()[:, None]], dim=1)  # the last column is the chosen token's
    mine = scaled.gather(1, tokens)
    before = torch.cat([probs.cumsum(dim=1) - probs, (probs * (best > mine[:, -1:])).sum(dim=1, keepdim=True)], dim=1)
    last = best[:, -1:]
    margin = torch.minimum(
        torch.where(mine >= last, mine - beyond, mine - last), torch.where(top_p < 1, top_p - before, math.inf)
    )
    score = mine + _noise(tokens, settings).to(mine.device)
    lead = score - score[:, -1:]
    wrong = torch.minimum(lead, margin).amax(dim=1).clamp_min(0)
    drawn = torch.maximum(wrong, (-margin[:, -1]).clamp_min(0))
    return torch.where(heat[:, 0] > 0, drawn, best[:, 0] - mine[:, -1])


def _noise(tokens: "Tensor", settings: Arguments) -> "Tensor":
    """The Gumbel noise of tokens [m, n], float64 on the host."""
    import numpy as np
    import torch

    rows = zip(tokens.cpu().numpy(), samplings(settings, 0), strict=True)
    return torch.from_numpy(np.stack([gumbel(how, index, row) for row, (how, index) in rows])).double()


class TokenFeedback(NamedTuple):
    """Tensors that one decode step writes for the next.

    `token` [m, 1] int64; `position` [1] int64, to which `moves` [1] int64 is added. The embeddings of the ids, rows of
    `embedding` [vocab, hidden], go into `stream` [m, hidden]. The ids go into row `position` (after the addition) of
    `seen` [rows, m] int64 in pinned memory. Either is skipped if None.
    """

    token: "Tensor"
    position: "Tensor"
    moves: "Tensor"
    embedding: "Tensor | None" = None
    stream: "Tensor | None" = None
    seen: "Tensor | None" = None
