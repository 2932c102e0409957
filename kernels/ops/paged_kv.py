"""Where keys and values lie in a KV cache, contiguous or paged. Imports without torch."""

from typing import TYPE_CHECKING

from kernels.quant.formats import E4M3_MAX

if TYPE_CHECKING:
    import torch

PAGE_SIZE = 16
"""Tokens of a page where a case names none."""
SPARE_SLOTS = 40
"""Slots of a test cache beyond those that a call reads or writes."""


def slots(
    position: "torch.Tensor", q_len: int, page_table: "torch.Tensor | None", page_size: int
) -> "tuple[torch.Tensor, torch.Tensor]":
    """Two int64 indexes [batch, q_len] of the slots from position[b] on: sequence or page, and token."""
    import torch

    token = position.long()[:, None] + torch.arange(q_len, device=position.device)
    sequence = torch.arange(position.shape[0], device=position.device)[:, None].expand_as(token)
    if page_table is None:
        return sequence, token
    return page_table.long()[sequence, token // page_size], token % page_size


def scale_kv(rows: "torch.Tensor", scale: "torch.Tensor") -> "torch.Tensor":
    """Keys or values [..., kv_heads, head_dim] divided by their head's scale, cut off at the largest e4m3."""
    return (rows / scale[:, None]).clamp(-E4M3_MAX, E4M3_MAX)


def shuffle_pages(batch: int, per_sequence: int, generator: "torch.Generator") -> "tuple[torch.Tensor, int]":
    """A page table [batch, per_sequence] int32 of distinct pages, shuffled, and their number, one unused."""
    import torch

    pages = batch * per_sequence + 1
    order = torch.randperm(pages, generator=generator, device=generator.device)
    return order[: pages - 1].reshape(batch, per_sequence).int(), pages


def keys_of(cache: "torch.Tensor", page_table: "torch.Tensor | None", sequence: int, length: int) -> "torch.Tensor":
    """The first keys of one sequence, [1, length, kv_heads, head_dim]."""
    if page_table is None:
        return cache[sequence : sequence + 1, :length]
    pages = page_table[sequence, : -(-length // cache.shape[1])].long()
    return cache[pages].flatten(0, 1)[None, :length]
