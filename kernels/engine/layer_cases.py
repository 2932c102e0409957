"""The cases of one layer's rotation and attention, for the code that chooses variants and the code that calls them.

Each function takes the layer's shape, the number of sequences `batch`, the dtype and, for a cache in pages, the tokens
of a page: `page_size`, None for a contiguous cache.
"""

from typing import Any, Literal

from kernels.engine.decoder import LayerShape
from kernels.ops import AttentionCase, DType, RopeCase, StepAttentionCase


def rope_case(
    shape: LayerShape, batch: int, queries: int, dtype: DType, page_size: int | None = None, append: bool = True
) -> RopeCase:
    """Rotation of `queries` tokens of each sequence; with `append` their keys and values are written to the cache."""
    return RopeCase(q_len=queries, append=append, **_shared(shape, batch, dtype, page_size))


def attention_case(
    shape: LayerShape,
    kind: Literal["prefill", "decode"],
    batch: int,
    queries: int,
    length: int,
    dtype: DType,
    page_size: int | None = None,
) -> AttentionCase:
    """Attention of `queries` tokens of each sequence over up to `length` keys."""
    window, shared = shape.window_within(length), _shared(shape, batch, dtype, page_size)
    return AttentionCase(kind=kind, q_len=queries, kv_len=length, kv_dtype=dtype, window=window, **shared)


def step_case(
    shape: LayerShape, batch: int, length: int, dtype: DType, page_size: int | None = None
) -> StepAttentionCase:
    """Rotation, append and attention of a decode step in one kernel, over up to `length` keys."""
    window = shape.window_within(length)
    return StepAttentionCase(kv_len=length, window=window, **_shared(shape, batch, dtype, page_size))


def _shared(shape: LayerShape, batch: int, dtype: DType, page_size: int | None) -> dict[str, Any]:
    """The fields that all three cases have."""
    heads = {"heads": shape.heads, "kv_heads": shape.kv_heads, "head_dim": shape.head_dim}
    pages = {} if page_size is None else {"paged": True, "page_size": page_size}
    return {"batch": batch, "dtype": dtype, **heads, **pages}
