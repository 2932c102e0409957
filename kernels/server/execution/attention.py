"""Attention over pages by torch alone: where no planned variant serves, and as the reference on a CPU."""

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.model.decoder import with_sinks


def paged_attention(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    lengths: Tensor,
    tables: Tensor,
    *,
    scaling: float,
    window: int | None,
    sinks: Tensor | None = None,
) -> Tensor:
    """o like q [batch, queries, heads, head_dim]; the last query of sequence b sees the first lengths[b] keys, each
    query before it one less. Keys and values [pages, page_size, kv_heads, head_dim], tables [batch, pages of a
    sequence], sinks [heads]. A query that sees no key gives zeros.
    """
    queries, heads = q.shape[1:3]
    capacity = tables.shape[1] * keys.shape[1]
    longest = capacity if q.is_cuda else max(1, int(lengths.max()))  # a GPU must not wait for the host
    used = tables[:, : -(-longest // keys.shape[1])].long()
    k, v = (each[used].flatten(1, 2)[:, :longest].transpose(1, 2) for each in (keys, values))
    key = torch.arange(longest, device=q.device)
    last = lengths.long()[:, None] - queries + torch.arange(queries, device=q.device)
    seen = key <= last[:, :, None]
    if window is not None:
        seen &= key > last[:, :, None] - window
    blind = last < 0
    mask = (seen | blind[:, :, None])[:, None]
    if sinks is not None:
        k, v, mask = with_sinks(k, v, mask, sinks)
    o = F.scaled_dot_product_attention(
        q.transpose(1, 2), k, v, attn_mask=mask, scale=scaling, enable_gqa=heads != keys.shape[2]
    )
    return o.transpose(1, 2).masked_fill(blind[:, :, None, None], 0)
