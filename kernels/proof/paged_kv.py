"""Where keys and values lie in a KV cache, contiguous or paged: for references, inputs and the gate."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from kernels.ops import AttentionCase

PAGE_SIZE = 16
"""Tokens of a page where a case names none."""


def slots(
    position: torch.Tensor, q_len: int, page_table: torch.Tensor | None, page_size: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Two int64 index tensors [batch, q_len]: cache[first, second] are the slots position[b] + 0, 1, ….

    Contiguous: sequence and token. Paged (page_table [batch, max_pages] int32): page and token within the page.
    """
    token = position.long()[:, None] + torch.arange(q_len, device=position.device)
    sequence = torch.arange(position.shape[0], device=position.device)[:, None].expand_as(token)
    if page_table is None:
        return sequence, token
    return page_table.long()[sequence, token // page_size], token % page_size


def shuffled_pages(batch: int, per_sequence: int, generator: torch.Generator) -> tuple[torch.Tensor, int]:
    """A page table [batch, per_sequence] int32 of distinct pages in random order, and the pages there are: one more."""
    pages = batch * per_sequence + 1
    order = torch.randperm(pages, generator=generator, device=generator.device)
    return order[: pages - 1].reshape(batch, per_sequence).int(), pages


def each_sequence(
    case: AttentionCase,
    arguments: Mapping[str, Any],
    attend: Callable[[AttentionCase, dict[str, torch.Tensor]], torch.Tensor],
) -> torch.Tensor:
    """o of a case that reads a cache: `attend` of each sequence by itself, its keys and values taken out of the cache.

    They are multiplied by their scales in float32 (float64 beside a float64 q) and rounded to q's dtype.
    """
    q, scales = arguments["q"], (arguments.get("k_scale"), arguments.get("v_scale"))
    rows = []
    for sequence, (_, length) in enumerate(case.sequences):
        taken = {"q": q[sequence : sequence + 1]}
        for name, scale in zip(("k", "v"), scales, strict=True):
            held = _keys(arguments[name], arguments.get("page_table"), sequence, length)
            wide = held.to(torch.float64 if q.dtype == torch.float64 else torch.float32)
            taken[name] = (wide if scale is None else wide * scale[:, None]).to(q.dtype)
        plain = {"batch": 1, "kv_len": length, "kv_lengths": None, "paged": False, "kv_dtype": case.dtype}
        rows.append(attend(case.model_copy(update=plain), taken))
    return torch.cat(rows) if rows else torch.empty_like(q)


def _keys(cache: torch.Tensor, page_table: torch.Tensor | None, sequence: int, length: int) -> torch.Tensor:
    """The first keys of one sequence, [1, length, kv_heads, head_dim]."""
    if page_table is None:
        return cache[sequence : sequence + 1, :length]
    pages = page_table[sequence, : -(-length // cache.shape[1])].long()
    return cache[pages].flatten(0, 1)[None, :length]
