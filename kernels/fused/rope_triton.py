"""Rotary embedding in Triton: a program rotates one token's heads of q and k, and writes k and v into the cache."""

import torch
import triton
import triton.language as tl

from kernels.check_args import check_tensor
from kernels.cuda.pdl_triton import pdl_options, pdl_prologue

FLOATS = (torch.bfloat16, torch.float16, torch.float32)


@triton.jit
def _rotate(source, target, at, to, inside, low_cos, low_sin, high_cos, high_sin, HALF: tl.constexpr):
    """Rotates [heads, head_dim] by halves: (a, b) to (a·cos - b·sin, b·cos + a·sin)."""
    low = tl.load(source + at, mask=inside, other=0.0).to(tl.float32)
    high = tl.load(source + at + HALF, mask=inside, other=0.0).to(tl.float32)
    tl.store(target + to, (low * low_cos - high * low_sin).to(target.dtype.element_ty), mask=inside)
    tl.store(target + to + HALF, (high * high_cos + low * high_sin).to(target.dtype.element_ty), mask=inside)


@triton.jit
def _rope(
    q, k, v, cos, sin, q_out, k_out, v_out, position, page_table,
    q_len, q_batch, q_token, q_head, k_batch, k_token, k_head, v_batch, v_token, v_head,
    cos_batch, cos_token, sin_batch, sin_token, out_first, out_second, out_head, position_step, table_step,
    pages, capacity,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, HALF: tl.constexpr, APPEND: tl.constexpr, PAGE_SIZE: tl.constexpr,
    HEADS_BLOCK: tl.constexpr, KV_BLOCK: tl.constexpr, HALF_BLOCK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    pdl_prologue(PDL)
    program = tl.program_id(0)
    sequence, token = (program // q_len).to(tl.int64), (program % q_len).to(tl.int64)
    d = tl.arange(0, HALF_BLOCK)
    half = d < HALF
    angles = sequence * cos_batch + token * cos_token + d
    low_cos = tl.load(cos + angles, mask=half, other=0.0).to(tl.float32)[None, :]
    high_cos = tl.load(cos + angles + HALF, mask=half, other=0.0).to(tl.float32)[None, :]
    angles = sequence * sin_batch + token * sin_token + d
    low_sin = tl.load(sin + angles, mask=half, other=0.0).to(tl.float32)[None, :]
    high_sin = tl.load(sin + angles + HALF, mask=half, other=0.0).to(tl.float32)[None, :]

    first, second = sequence, token
    head = tl.arange(0, KV_BLOCK).to(tl.int64)
    inside = (head < KV_HEADS)[:, None] & half[None, :]
    if APPEND:
        slot = tl.load(position + sequence * position_step).to(tl.int64) + token
        held = (slot >= 0) & (slot < capacity)
        second = slot
        if PAGE_SIZE:
            first = tl.load(page_table + sequence * table_step + slot // PAGE_SIZE, mask=held, other=-1).to(tl.int64)
            second = slot % PAGE_SIZE
            held = held & (first >= 0) & (first < pages)
        inside = inside & held
    to = first * out_first + second * out_second + head[:, None] * out_head + d[None, :]
    at = sequence * k_batch + token * k_token + head[:, None] * k_head + d[None, :]
    _rotate(k, k_out, at, to, inside, low_cos, low_sin, high_cos, high_sin, HALF)
    if APPEND:
        at = sequence * v_batch + token * v_token + head[:, None] * v_head + d[None, :]
        low = tl.load(v + at, mask=inside, other=0.0)
        high = tl.load(v + at + HALF, mask=inside, other=0.0)
        tl.store(v_out + to, low.to(v_out.dtype.element_ty), mask=inside)
        tl.store(v_out + to + HALF, high.to(v_out.dtype.element_ty), mask=inside)

    head = tl.arange(0, HEADS_BLOCK).to(tl.int64)
    inside = (head < HEADS)[:, None] & half[None, :]
    at = sequence * q_batch + token * q_token + head[:, None] * q_head + d[None, :]
    to = (program.to(tl.int64) * HEADS + head[:, None]) * (2 * HALF) + d[None, :]
    _rotate(q, q_out, at, to, inside, low_cos, low_sin, high_cos, high_sin, HALF)


def rope(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, warps: int = 4, pdl: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """(q, k) rotated by halves; q [batch, q_len, heads, head_dim], k with kv_heads; cos, sin [batch, q_len, head_dim].

    All but the last dimension may have any stride. A token goes to a program of `warps` warps. Raises ValueError that
    names the argument.
    """
    _check(q, k, cos, sin)
    rotated = torch.empty(k.shape, dtype=k.dtype, device=k.device)
    return _launch(q, k, k, cos, sin, rotated, rotated, None, None, warps, pdl), rotated


def rope_append(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    position: torch.Tensor,
    page_table: torch.Tensor | None = None,
    warps: int = 4,
    pdl: bool = False,
) -> torch.Tensor:
    """q rotated; writes the rotated k, and v, into the caches at position[b], position[b] + 1, … of each sequence b.

    Shapes as in `rope`, v as k. Caches [batch, capacity, kv_heads, head_dim], or [pages, page_size, kv_heads, head_dim]
    with page_table [batch, max_pages] int32. position [batch], or [1] for all, int64 or int32, is read on the device.
    Slots outside the cache or on an invalid page are not written. Raises ValueError that names the argument.
    """
    _check(q, k, cos, sin)
    batch = q.shape[0]
    check_tensor("v", v, k.shape, (k.dtype,), q.device)
    first = batch if page_table is None else None
    check_tensor("k_cache", k_cache, (first, None, *k.shape[2:]), FLOATS, q.device)
    check_tensor("v_cache", v_cache, k_cache.shape, (k_cache.dtype,), q.device)
    if k_cache.stride() != v_cache.stride():
        raise ValueError(
            f"v_cache has strides {v_cache.stride()} and k_cache {k_cache.stride()}: equal ones are needed"
        )
    check_tensor("position", position, (batch if position.shape != (1,) else 1,), (torch.int64, torch.int32), q.device)
    if page_table is not None:
        check_tensor("page_table", page_table, (batch, None), (torch.int32,), q.device)
    return _launch(q, k, v, cos, sin, k_cache, v_cache, position, page_table, warps, pdl)


def _check(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> None:
    check_tensor("q", q, (None, None, None, None), FLOATS, q.device)
    batch, q_len, _, head_dim = q.shape
    if head_dim % 2:
        raise ValueError(f"q has head_dim {head_dim}: a rotation by halves needs an even one")
    check_tensor("k", k, (batch, q_len, None, head_dim), (q.dtype,), q.device)
    check_tensor("cos", cos, (batch, q_len, head_dim), FLOATS, q.device)
    check_tensor("sin", sin, (batch, q_len, head_dim), FLOATS, q.device)


def _launch(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    k_out: torch.Tensor,
    v_out: torch.Tensor,
    position: torch.Tensor | None,
    page_table: torch.Tensor | None,
    warps: int,
    pdl: bool,
) -> torch.Tensor:
    batch, q_len, heads, head_dim = q.shape
    q_out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    page_size = k_out.shape[1] if page_table is not None else 0
    capacity = page_table.shape[1] * page_size if page_table is not None else k_out.shape[1]
    if batch * q_len:
        _rope[(batch * q_len,)](
            q, k, v, cos, sin, q_out, k_out, v_out,
            q if position is None else position, q if page_table is None else page_table,
            q_len, *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *cos.stride()[:2], *sin.stride()[:2],
            *k_out.stride()[:3], 0 if position is None or len(position) == 1 else position.stride(0),
            0 if page_table is None else page_table.stride(0), k_out.shape[0], capacity,
            HEADS=heads, KV_HEADS=k.shape[2], HALF=head_dim // 2, APPEND=position is not None, PAGE_SIZE=page_size,
            HEADS_BLOCK=triton.next_power_of_2(heads), KV_BLOCK=triton.next_power_of_2(k.shape[2]),
            HALF_BLOCK=triton.next_power_of_2(head_dim // 2), num_warps=warps, **pdl_options(pdl, q.device),
        )  # fmt: skip
    return q_out
