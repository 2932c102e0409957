"""The library's LM heads at the end of a pass, which write no logits. They serve steps without chunks, log
probabilities or changed logits: `argmax` greedy requests, `top_k_p` these and a top-k of MAX_TOP_K at most.
"""

from collections.abc import Callable, Collection

import torch
from torch import Tensor

from kernels.dtypes import DTYPE_NAMES
from kernels.model import decoder
from kernels.model.products import Rows, Stream
from kernels.ops import LmHeadCase, case_from
from kernels.ops.base import SamplingKind
from kernels.ops.lm_head import SETTING_DTYPES
from kernels.ops.sampling import GREEDY, Sampling
from kernels.plan import PlannedOp
from kernels.server.execution.inputs import Fields
from kernels.server.execution.shapes import PassShape
from kernels.server.scheduler.requests import Step

MAX_TOP_K = 50
MAX_EQUAL_LOGITS = 14
"""A head gives a row up where top-k keeps its 64 candidates. With MAX_TOP_K that takes 15 equal logits, which a model
has whose head has so many equal rows, such as rows of zeros for tokens that do not exist."""
TIMED_AS: dict[SamplingKind, Sampling] = {"argmax": GREEDY, "top_k_p": Sampling(1.0, top_k=MAX_TOP_K, top_p=0.9)}
"""How the rows are sampled when a head is timed beside logits and sampling."""
ROWS = 1024


def head_case(model: decoder.Decoder, rows: int, kind: SamplingKind) -> LmHeadCase:
    vocab, hidden = model.lm_head.shape
    dtype = DTYPE_NAMES[model.embedding.dtype]
    return LmHeadCase(m=rows, vocab=vocab, k=hidden, sampling=kind, dtype=dtype, weights=dtype)


def head_kinds(model: decoder.Decoder) -> list[SamplingKind]:
    """The heads that can sample this model's tokens: a soft cap of logits does not change which is the largest."""
    return [kind for kind in TIMED_AS if kind == "argmax" or model.logit_cap is None]


def planned_heads(model: decoder.Decoder, shape: PassShape, ops: Collection[PlannedOp]) -> list[SamplingKind]:
    """The heads that `ops` name for a pass of this shape; none for a pass with chunks."""
    if shape.blocks:
        return []
    cases = [case_from.validate_python(op.case | {"weights": op.case["dtype"]}) for op in ops if op.op == "lm_head"]
    return [kind for kind in head_kinds(model) if head_case(model, shape.sampled, kind) in cases]


def sampling_kinds(step: Step) -> SamplingKind | None:
    """The head that can sample every token of the step; None if some need their logits."""
    requests = [part.request for part in step.parts]
    if step.prefill_chunks or step.processes_logits or any(request.logprobs is not None for request in requests):
        return None
    samplings = [request.sampling for request in requests if not request.sampling.greedy]
    if not samplings:
        return "argmax"
    return "top_k_p" if all(0 < how.top_k <= MAX_TOP_K for how in samplings) else None


def sampling_head(rows: Rows, model: decoder.Decoder, fields: Fields, kind: SamplingKind) -> Callable[[Stream], Tensor]:
    """stream [sampled, hidden] ↦ ids [sampled] int64 by the planned head, -1 where it gives up. Streaming variants
    share the logits' copy, with the norm's weight in it; argmax leaves out a row's factor.
    """
    bound = rows.variants.planned(head_case(model, rows.m, kind))
    assert bound is not None
    function, norm = bound.function, model.norm
    folds = bound.variant.advances_token
    weight = rows.variants.pack(bound, model.lm_head, norm if folds else None)
    if kind == "argmax":
        return lambda stream: function(stream.summed() if folds else rows.norm(stream, norm), weight)
    scale = torch.ones_like(norm) if folds else norm
    settings = {name: getattr(fields, {"index": "place"}.get(name, name)) for name in SETTING_DTYPES}
    return lambda stream: function(rows.norm(stream, scale), weight, **settings, top_k=fields.top_k)


@torch.no_grad()
def most_equal_rows(weight: Tensor) -> int:
    """How many rows of weight [n, k] are equal, at most. Rows are equal if a random sum of their values is."""
    generator = torch.Generator(weight.device).manual_seed(0)
    factors = torch.randn(weight.shape[1], dtype=torch.float64, device=weight.device, generator=generator)
    sums = torch.cat([(block.double() * factors).sum(dim=1) for block in weight.split(ROWS)])
    return int(sums.unique(return_counts=True)[1].max())
