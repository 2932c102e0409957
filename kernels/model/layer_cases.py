"""The cases of one layer's rotation, attention and experts, for the code that chooses variants and the code that calls
them.

Each function of attention takes the layer's shape, the number of sequences `batch`, the dtype and, for a cache in
pages, the tokens of a page: `page_size`, None for a contiguous cache. `kv_dtype` is the cache's, None for that of the
activations.
"""

from typing import Any, Literal

from torch import Tensor

from kernels.model.decoder import LayerShape
from kernels.model.experts import Experts
from kernels.model.layer_weights import Weights
from kernels.ops import AttentionCase, DType, GatedCase, GroupedCase, RopeCase, StepAttentionCase

DEFAULT_SCALE_ERROR = 1e-6


def default_scale(shape: LayerShape) -> bool:
    """Whether scores are scaled by 1 / √head_dim, as every variant does."""
    return abs(shape.scaling * shape.head_dim**0.5 - 1) < DEFAULT_SCALE_ERROR


def fits_step(w: Weights, shape: LayerShape) -> bool:
    """Whether a variant may do a layer's whole decode step: none norms all heads together or caps scores."""
    by_head = w.q_norm is None or len(w.q_norm) == shape.head_dim
    return by_head and shape.softcap is None and default_scale(shape)


def step_weights(w: Weights) -> dict[str, Tensor]:
    """`q_norm`, `k_norm` [head_dim] and `sinks` [heads] of a layer that has them, as arguments of a step."""
    of_layer = {"q_norm": w.q_norm, "k_norm": w.k_norm, "sinks": w.sinks}
    return {name: weight for name, weight in of_layer.items() if weight is not None}


def rope_case(
    shape: LayerShape,
    batch: int,
    queries: int,
    dtype: DType,
    page_size: int | None = None,
    append: bool = True,
    kv_dtype: Literal["fp8"] | None = None,
) -> RopeCase:
    """Rotation of `queries` tokens of each sequence; with `append` their keys and values are written to the cache."""
    return RopeCase(q_len=queries, append=append, kv_dtype=kv_dtype, **_shared(shape, batch, dtype, page_size))


def attention_case(
    shape: LayerShape,
    kind: Literal["prefill", "decode"],
    batch: int,
    queries: int,
    length: int,
    dtype: DType,
    page_size: int | None = None,
    kv_dtype: Literal["fp8"] | None = None,
) -> AttentionCase:
    """Attention of `queries` tokens of each sequence over up to `length` keys."""
    window, shared = shape.window_within(length), _shared(shape, batch, dtype, page_size)
    return AttentionCase(
        kind=kind,
        q_len=queries,
        kv_len=length,
        kv_dtype=kv_dtype or dtype,
        window=window,
        softcap=shape.softcap,
        sinks=shape.sinks or None,
        **shared,
    )


def step_case(
    w: Weights, shape: LayerShape, batch: int, length: int, dtype: DType, page_size: int | None = None
) -> StepAttentionCase:
    """What lies between two products of a layer's decode step in one kernel, over up to `length` keys."""
    return StepAttentionCase(
        kv_len=length,
        window=shape.window_within(length),
        norm_eps=None if w.q_norm is None else shape.eps,
        sinks=shape.sinks or None,
        **_shared(shape, batch, dtype, page_size),
    )


def expert_cases(w: Experts, m: int, dtype: DType) -> tuple[GroupedCase, GatedCase | None, GroupedCase]:
    """Gate and up, activation, and down of a layer's experts for `m` tokens, `top_k` rows each. A product of tiles
    gates by itself; otherwise the activation is a kernel: a copy of the weights for it would be too large.
    """
    (experts, hidden), rows = w.router.shape, m * w.top_k
    down = GroupedCase(rows=rows, experts=experts, n=hidden, k=w.inner, dtype=dtype)
    if w.tiled:
        return GroupedCase(rows=rows, experts=experts, n=w.inner, k=hidden, dtype=dtype, epilogue="swiglu"), None, down
    wide = GroupedCase(rows=rows, experts=experts, n=2 * w.inner, k=hidden, dtype=dtype)
    return wide, GatedCase(m=rows, n=w.inner, activation=w.activation, dtype=dtype), down


def few_expert_cases(w: Experts, m: int, dtype: DType) -> tuple[GroupedCase, GroupedCase]:
    """Gate and up, which also gather, add a bias and activate, and down with its bias, of a layer's experts for `m`
    tokens: as variants of weights in fewer bits take them.
    """
    (experts, hidden), rows = w.router.shape, m * w.top_k
    gates: Literal["swiglu", "swigluoai"] = "swiglu" if w.gate_up_bias is None else "swigluoai"
    wide = GroupedCase(rows=rows, experts=experts, n=w.inner, k=hidden, dtype=dtype, epilogue=gates, gathers=True)
    added: Literal["none", "bias"] = "none" if w.down_bias is None else "bias"
    return wide, GroupedCase(rows=rows, experts=experts, n=hidden, k=w.inner, dtype=dtype, epilogue=added)


def _shared(shape: LayerShape, batch: int, dtype: DType, page_size: int | None) -> dict[str, Any]:
    """The fields that all three cases have."""
    heads = {"heads": shape.heads, "kv_heads": shape.kv_heads, "head_dim": shape.head_dim}
    pages = {} if page_size is None else {"paged": True, "page_size": page_size}
    return {"batch": batch, "dtype": dtype, **heads, **pages}
