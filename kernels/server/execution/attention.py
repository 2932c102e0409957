"""Attention over pages by torch alone: where no planned variant serves, and as the reference on a CPU."""

import torch
from torch import Tensor

from kernels.model.decoder import LayerShape, masked_attention


def paged_attention(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    lengths: Tensor,
    tables: Tensor,
    *,
    shape: LayerShape,
    sinks: Tensor | None = None,
    **scales: Tensor,
) -> Tensor:
    """o like q [batch, queries, heads, head_dim]; the last query of sequence b sees the first lengths[b] keys, each
    query before it one less. Keys and values [pages, page_size, kv_heads, head_dim], tables [batch, pages of a
    sequence], sinks [heads]; of pages in fp8 k_scale and v_scale [kv_heads]. A query that sees no key gives zeros.
    """
    queries, capacity = q.shape[1], tables.shape[1] * keys.shape[1]
    longest = capacity if q.device.type != "cpu" else max(1, int(lengths.max()))  # a GPU must not wait for the host
    used = tables[:, : -(-longest // keys.shape[1])].long()
    k, v = (
        _widened(each[used].flatten(1, 2)[:, :longest], scale, q.dtype).transpose(1, 2)
        for each, scale in ((keys, scales.get("k_scale")), (values, scales.get("v_scale")))
    )
    key = torch.arange(longest, device=q.device)
    last = lengths.long()[:, None] - queries + torch.arange(queries, device=q.device)
    seen = key <= last[:, :, None]
    if shape.window is not None:
        seen &= key > last[:, :, None] - shape.window
    blind = last < 0
    mask = (seen | blind[:, :, None])[:, None]
    o = masked_attention(q.transpose(1, 2), k, v, mask, shape, sinks)
    return o.transpose(1, 2).masked_fill(blind[:, :, None, None], 0)


def _widened(rows: Tensor, scale: Tensor | None, dtype: torch.dtype) -> Tensor:
    """rows [..., kv_heads, head_dim] of fp8 times their scales; others as they are."""
    return rows if scale is None else (rows.float() * scale[:, None]).to(dtype)
