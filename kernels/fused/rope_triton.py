"""Rotary embedding in Triton: a program rotates one token's heads of q and k, and writes k and v into the cache."""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from kernels.check_args import check_tensor
from kernels.cuda.pdl_triton import dependent, pdl_prologue
from kernels.cuda.strided_triton import Strided, strided
from kernels.ops.rope import AppendArguments

FLOATS = (torch.bfloat16, torch.float16, torch.float32)


class Config(NamedTuple):
    """The constants of a build; a BLOCK is a number rounded up to a power of two. PAGE_SIZE 0 is a contiguous cache."""

    HEADS: int
    KV_HEADS: int
    HALF: int
    APPEND: bool
    PAGE_SIZE: int
    HEADS_BLOCK: int
    KV_BLOCK: int
    HALF_BLOCK: int
    PDL: bool


class Angles(NamedTuple):
    """cos and sin [batch, q_len, head_dim] with their strides."""

    cos: Any
    cos_batch: Any
    cos_token: Any
    sin: Any
    sin_batch: Any
    sin_token: Any


class Out(NamedTuple):
    """The rotated q, contiguous, and where k and v go: tensors as in `Strided`, of equal strides."""

    q: Any
    k: Any
    v: Any
    first: Any
    second: Any
    head: Any


class Slots(NamedTuple):
    """The slots of an append: positions and page table with the strides of a sequence, the number of pages, and the
    capacity of a sequence.
    """

    position: Any
    position_step: Any
    page_table: Any
    table_step: Any
    pages: Any
    capacity: Any


@triton.jit
def _rotate(source, target, at, to, inside, angles, HALF: tl.constexpr):
    """Rotates [heads, head_dim] by halves: (a, b) to (a·cos - b·sin, b·cos + a·sin)."""
    low_cos, low_sin, high_cos, high_sin = angles
    low = tl.load(source + at, mask=inside, other=0.0).to(tl.float32)
    high = tl.load(source + at + HALF, mask=inside, other=0.0).to(tl.float32)
    tl.store(target + to, (low * low_cos - high * low_sin).to(target.dtype.element_ty), mask=inside)
    tl.store(target + to + HALF, (high * high_cos + low * high_sin).to(target.dtype.element_ty), mask=inside)


@triton.jit
def _rope(q, k, v, angles, out, slots, q_len, C: tl.constexpr):
    """q, k and v as the fields of `Strided`, angles, out and slots as those of the classes above."""
    pdl_prologue(C.PDL)
    q, k, v = Strided(*q), Strided(*k), Strided(*v)
    angles, out, slots = Angles(*angles), Out(*out), Slots(*slots)
    program = tl.program_id(0)
    sequence, token = (program // q_len).to(tl.int64), (program % q_len).to(tl.int64)
    d = tl.arange(0, C.HALF_BLOCK)
    half = d < C.HALF
    at = sequence * angles.cos_batch + token * angles.cos_token + d
    low_cos = tl.load(angles.cos + at, mask=half, other=0.0).to(tl.float32)[None, :]
    high_cos = tl.load(angles.cos + at + C.HALF, mask=half, other=0.0).to(tl.float32)[None, :]
    at = sequence * angles.sin_batch + token * angles.sin_token + d
    low_sin = tl.load(angles.sin + at, mask=half, other=0.0).to(tl.float32)[None, :]
    high_sin = tl.load(angles.sin + at + C.HALF, mask=half, other=0.0).to(tl.float32)[None, :]

    first, second = sequence, token
    head = tl.arange(0, C.KV_BLOCK).to(tl.int64)
    inside = (head < C.KV_HEADS)[:, None] & half[None, :]
    if C.APPEND:
        slot = tl.load(slots.position + sequence * slots.position_step).to(tl.int64) + token
        held = (slot >= 0) & (slot < slots.capacity)
        second = slot
        if C.PAGE_SIZE:
            table = slots.page_table + sequence * slots.table_step
            first = tl.load(table + slot // C.PAGE_SIZE, mask=held, other=-1).to(tl.int64)
            second = slot % C.PAGE_SIZE
            held = held & (first >= 0) & (first < slots.pages)
        inside = inside & held
    to = first * out.first + second * out.second + head[:, None] * out.head + d[None, :]
    at = sequence * k.first + token * k.token + head[:, None] * k.head + d[None, :]
    _rotate(k.data, out.k, at, to, inside, (low_cos, low_sin, high_cos, high_sin), C.HALF)
    if C.APPEND:
        at = sequence * v.first + token * v.token + head[:, None] * v.head + d[None, :]
        low = tl.load(v.data + at, mask=inside, other=0.0)
        high = tl.load(v.data + at + C.HALF, mask=inside, other=0.0)
        tl.store(out.v + to, low.to(out.v.dtype.element_ty), mask=inside)
        tl.store(out.v + to + C.HALF, high.to(out.v.dtype.element_ty), mask=inside)

    head = tl.arange(0, C.HEADS_BLOCK).to(tl.int64)
    inside = (head < C.HEADS)[:, None] & half[None, :]
    at = sequence * q.first + token * q.token + head[:, None] * q.head + d[None, :]
    to = (program.to(tl.int64) * C.HEADS + head[:, None]) * (2 * C.HALF) + d[None, :]
    _rotate(q.data, out.q, at, to, inside, (low_cos, low_sin, high_cos, high_sin), C.HALF)


def rope(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, warps: int = 4, pdl: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """(q, k) rotated by halves; q [batch, q_len, heads, head_dim], k with kv_heads; cos, sin [batch, q_len, head_dim].

    All but the last dimension may have any stride. A token goes to a program of `warps` warps. Raises ValueError that
    names the argument.
    """
    _check(q, k, cos, sin)
    rotated = torch.empty(k.shape, dtype=k.dtype, device=k.device)
    given = AppendArguments(q, k, k, cos, sin, rotated, rotated, position=q)  # v and position are not read
    return _launch(given, False, warps, pdl), rotated


def rope_append(given: AppendArguments, warps: int = 4, pdl: bool = False) -> torch.Tensor:
    """q rotated; writes the rotated k, and v, into the caches from position[b] on in each sequence b.

    position, int64 or int32, is read on the device. Slots outside the cache or on an invalid page are not written.
    Raises ValueError that names the argument.
    """
    q, k, v, cos, sin, k_cache, v_cache, position, page_table = given
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
    return _launch(given, True, warps, pdl)


def _check(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> None:
    check_tensor("q", q, (None, None, None, None), FLOATS, q.device)
    batch, q_len, _, head_dim = q.shape
    if head_dim % 2:
        raise ValueError(f"q has head_dim {head_dim}: a rotation by halves needs an even one")
    check_tensor("k", k, (batch, q_len, None, head_dim), (q.dtype,), q.device)
    check_tensor("cos", cos, (batch, q_len, head_dim), FLOATS, q.device)
    check_tensor("sin", sin, (batch, q_len, head_dim), FLOATS, q.device)


def _launch(given: AppendArguments, append: bool, warps: int, pdl: bool) -> torch.Tensor:
    """The rotated q; k goes to `k_cache`, to the slot of its token if nothing is appended."""
    q, k, v, cos, sin, k_out, v_out, position, page_table = given
    batch, q_len, heads, head_dim = q.shape
    q_out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    page_size = k_out.shape[1] if page_table is not None else 0
    capacity = page_table.shape[1] * page_size if page_table is not None else k_out.shape[1]
    if batch * q_len:
        launch_pdl = dependent(pdl, q.device)
        config = Config(
            HEADS=heads, KV_HEADS=k.shape[2], HALF=head_dim // 2, APPEND=append, PAGE_SIZE=page_size,
            HEADS_BLOCK=triton.next_power_of_2(heads), KV_BLOCK=triton.next_power_of_2(k.shape[2]),
            HALF_BLOCK=triton.next_power_of_2(head_dim // 2), PDL=launch_pdl,
        )  # fmt: skip
        slots = (
            position, position.stride(0) if append and len(position) > 1 else 0,
            q if page_table is None else page_table, 0 if page_table is None else page_table.stride(0),
            k_out.shape[0], capacity,
        )  # fmt: skip
        _rope[(batch * q_len,)](
            strided(q), strided(k), strided(v), (cos, *cos.stride()[:2], sin, *sin.stride()[:2]),
            (q_out, k_out, v_out, *k_out.stride()[:3]), slots, q_len, config, num_warps=warps, launch_pdl=launch_pdl,
        )  # fmt: skip
    return q_out
