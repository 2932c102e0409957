"""Rotary embedding in Triton: a program rotates one token's heads of q and k, and writes k and v into the cache."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.check_args import check_outputs, check_presence, check_tensor
from kernels.cuda.call import CudaCall, Output, Prepared, allocation, identity, launch_nothing, size_and_strides
from kernels.cuda.pdl_triton import pdl_prologue, uses_pdl
from kernels.cuda.strided_triton import Strided, strided
from kernels.cuda.triton_launch import prepared
from kernels.ops.rope import AppendArguments

FLOATS = (torch.bfloat16, torch.float16, torch.float32)
CACHES = (*FLOATS, torch.float8_e4m3fn)


class Config(NamedTuple):
    """Constants of a build; a BLOCK is a power of two, PAGE_SIZE 0 a contiguous cache, SCALED one with scales."""

    HEADS: int
    KV_HEADS: int
    HALF: int
    APPEND: bool
    PAGE_SIZE: int
    SCALED: bool
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
    """The slots of an append: positions, page table and stride, number of pages, capacity, scales [kv_heads]."""

    position: Any
    position_step: Any
    page_table: Any
    table_step: Any
    pages: Any
    capacity: Any
    k_scale: Any
    v_scale: Any


@triton.jit
def _load(source, at, inside, HALF: tl.constexpr):
    """The halves of [heads, head_dim]."""
    low = tl.load(source + at, mask=inside, other=0.0).to(tl.float32)
    return low, tl.load(source + at + HALF, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _rotated(halves, angles):
    """Rotates by halves: (a, b) to (a·cos - b·sin, b·cos + a·sin)."""
    low, high = halves
    low_cos, low_sin, high_cos, high_sin = angles
    return low * low_cos - high * low_sin, high * high_cos + low * high_sin


@triton.jit
def _store(halves, target, to, inside, HALF: tl.constexpr):
    low, high = halves
    tl.store(target + to, low.to(target.dtype.element_ty), mask=inside)
    tl.store(target + to + HALF, high.to(target.dtype.element_ty), mask=inside)


@triton.jit
def _scaled(halves, scales, head, known):
    """Divided by the scale of their head and saturated to e4m3's range; NaN stays."""
    low, high = halves
    scale = tl.load(scales + head, mask=known, other=1.0)[:, None]
    low = tl.clamp(low / scale, -448.0, 448.0, propagate_nan=tl.PropagateNan.ALL)
    return low, tl.clamp(high / scale, -448.0, 448.0, propagate_nan=tl.PropagateNan.ALL)


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
    factors = low_cos, low_sin, high_cos, high_sin
    rotated = _rotated(_load(k.data, at, inside, C.HALF), factors)
    if C.SCALED:
        rotated = _scaled(rotated, slots.k_scale, head, head < C.KV_HEADS)
    _store(rotated, out.k, to, inside, C.HALF)
    if C.APPEND:
        at = sequence * v.first + token * v.token + head[:, None] * v.head + d[None, :]
        taken = _load(v.data, at, inside, C.HALF)
        if C.SCALED:
            taken = _scaled(taken, slots.v_scale, head, head < C.KV_HEADS)
        _store(taken, out.v, to, inside, C.HALF)

    head = tl.arange(0, C.HEADS_BLOCK).to(tl.int64)
    inside = (head < C.HEADS)[:, None] & half[None, :]
    at = sequence * q.first + token * q.token + head[:, None] * q.head + d[None, :]
    to = (program.to(tl.int64) * C.HEADS + head[:, None]) * (2 * C.HALF) + d[None, :]
    _store(_rotated(_load(q.data, at, inside, C.HALF), factors), out.q, to, inside, C.HALF)


class _Rotation(CudaCall):
    """A call that rotates: a token goes to a program of `warps` warps; `pdl` is a dependent launch."""

    def __init__(self, warps: int = 4, pdl: bool = False) -> None:
        super().__init__()
        self.warps, self.pdl = warps, pdl

    def _pack_args(self, args: AppendArguments, stream: int, allocate: Callable[[], Any], append: bool) -> Prepared:
        """The call packed. Without `append`, `k_cache` only has the shape and strides of the rotated k."""
        q, k, v, cos, sin, cache, _, position, page_table, k_scale, v_scale = args
        batch, q_len, heads, head_dim = q.shape
        if not batch * q_len:
            return Prepared(allocate, lambda _: launch_nothing)
        page_size = cache.shape[1] if page_table is not None else 0
        capacity = cache.shape[1] if page_table is None else page_table.shape[1] * page_size
        pdl = uses_pdl(self.pdl, q.device)
        config = Config(
            HEADS=heads, KV_HEADS=k.shape[2], HALF=head_dim // 2, APPEND=append, PAGE_SIZE=page_size,
            SCALED=k_scale is not None, HEADS_BLOCK=triton.next_power_of_2(heads),
            KV_BLOCK=triton.next_power_of_2(k.shape[2]), HALF_BLOCK=triton.next_power_of_2(head_dim // 2), PDL=pdl,
        )  # fmt: skip
        slots = (
            position, position.stride(0) if append and len(position) > 1 else 0,
            q if page_table is None else page_table, 0 if page_table is None else page_table.stride(0),
            cache.shape[0], capacity, q if k_scale is None else k_scale, q if v_scale is None else v_scale,
        )  # fmt: skip
        angles = (cos, *cos.stride()[:2], sin, *sin.stride()[:2])

        def arguments(outputs: Any) -> tuple[Any, ...]:
            to = (outputs, args.k_cache, args.v_cache) if append else (*outputs, outputs[1])
            return (strided(q), strided(k), strided(v), angles, (*to, *cache.stride()[:3]), slots, q_len, config)

        grid = (batch * q_len,)
        return prepared(_rope, grid, stream, allocate, arguments, num_warps=self.warps, launch_pdl=pdl)


class Rope(_Rotation):
    """f(q, k, cos, sin, out=None) -> (q, k) rotated by halves; q [batch, q_len, heads, head_dim], k with kv_heads; cos
    and sin [batch, q_len, head_dim]; any stride but in the last dimension.
    """

    open_layout = staticmethod(size_and_strides)

    def _prepare(
        self, check: bool, stream: int, out: Any, /, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor
    ) -> Prepared:
        outputs = [Output("out's q", tuple(q.shape), q.dtype), Output("out's k", tuple(k.shape), k.dtype)]
        allocate = allocation(outputs, q.device)
        if check:
            _check(q, k, cos, sin)
            check_outputs(out, outputs, q.device)
        rotated = torch.empty(k.shape, device="meta")
        given = AppendArguments(q, k, k, cos, sin, rotated, rotated, position=q)  # v and position are not read
        return self._pack_args(given, stream, allocate, append=False)


def _append_layout(values: Iterable[Any]) -> tuple[Any, ...]:
    """What differs between right appends: the case fixes q, k, v, cos and sin, and both caches have one layout."""
    out, q, k, v, cos, sin, k_cache, v_cache, position, *table = values
    return (
        out.data_ptr(), q.data_ptr(), k.data_ptr(), v.data_ptr(), cos.data_ptr(), sin.data_ptr(), k_cache.data_ptr(),
        v_cache.data_ptr(), q.stride(), k.stride(), v.stride(), cos.stride(), sin.stride(), k_cache.stride(),
        k_cache.shape, position.data_ptr(), position.shape, position.stride(), position.dtype,
        identity(table) if table else (),
    )  # fmt: skip


class RopeAppend(_Rotation):
    """f(q, k, v, cos, sin, k_cache, v_cache, position, page_table=None, k_scale=None, v_scale=None, out=None) -> q
    rotated; writes the rotated k, and v, into the caches from position[b] on in each sequence b. `AppendArguments` has
    the shapes.

    position, int64 or int32, is read on the device. Slots outside the cache or on an invalid page are not written.
    Raises ValueError that names the argument.
    """

    open_layout = staticmethod(_append_layout)
    in_order = AppendArguments

    def _prepare(self, check: bool, stream: int, out: Any, /, *arguments: Any, **named: Any) -> Prepared:
        given = AppendArguments(*arguments, **named)
        q = given.q
        outputs = [Output("out", tuple(q.shape), q.dtype)]
        if check:
            _check_append(given)
            check_outputs(out, outputs, q.device)
        return self._pack_args(given, stream, allocation(outputs, q.device), append=True)


def _check_append(args: AppendArguments) -> None:
    q, k, v, cos, sin, k_cache, v_cache, position, page_table, *scales = args
    _check(q, k, cos, sin)
    batch = q.shape[0]
    check_tensor("v", v, k.shape, (k.dtype,), q.device)
    first = batch if page_table is None else None
    check_tensor("k_cache", k_cache, (first, None, *k.shape[2:]), CACHES, q.device)
    check_tensor("v_cache", v_cache, k_cache.shape, (k_cache.dtype,), q.device)
    if k_cache.stride() != v_cache.stride():
        raise ValueError(
            f"v_cache has strides {v_cache.stride()} and k_cache {k_cache.stride()}: equal ones are needed"
        )
    check_tensor("position", position, (batch if position.shape != (1,) else 1,), (torch.int64, torch.int32), q.device)
    if page_table is not None:
        check_tensor("page_table", page_table, (batch, None), (torch.int32,), q.device)
    needs_scale = k_cache.dtype == torch.float8_e4m3fn or args.k_scale is not None
    for name, scale in zip(("k_scale", "v_scale"), scales, strict=True):
        check_presence(name, scale, needs_scale, f"k_cache is {k_cache.dtype}")
        if scale is not None:
            check_tensor(name, scale, k.shape[2:3], (torch.float32,), q.device)


def _check(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> None:
    check_tensor("q", q, (None, None, None, None), FLOATS, q.device)
    batch, q_len, _, head_dim = q.shape
    if head_dim % 2:
        raise ValueError(f"q has head_dim {head_dim}: a rotation by halves needs an even one")
    check_tensor("k", k, (batch, q_len, None, head_dim), (q.dtype,), q.device)
    check_tensor("cos", cos, (batch, q_len, head_dim), FLOATS, q.device)
    check_tensor("sin", sin, (batch, q_len, head_dim), FLOATS, q.device)
