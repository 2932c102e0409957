"""FlashAttention's forward pass in Triton: one program per tile of queries of one head, which loops over the visible
keys and keeps each row's running maximum, sum of exponentials (base 2) and weighted values. Source: Dao,
FlashAttention-2 (2023).
"""

from typing import NamedTuple

import triton
import triton.language as tl

from kernels.cuda.pdl_triton import pdl_prologue
from kernels.cuda.strided_triton import Strided
from kernels.ops import AttentionCase

LOG2_E = tl.constexpr(1.4426950408889634)


class Config(NamedTuple):
    """The constants of a build: a tile has BLOCK_M queries and BLOCK_N keys. WINDOW 0 means no window."""

    PACKED: bool
    CAUSAL: bool
    WINDOW: int
    SOFTCAP: bool
    SINKS: bool
    HEAD_DIM: int
    BLOCK_D: int
    """HEAD_DIM, rounded up to a power of two of at least 16"""
    BLOCK_M: int
    BLOCK_N: int
    PRECISION: str
    """that of float32 products, as `tl.dot` names it"""
    PDL: bool


@triton.jit
def _visible(rows, columns, kv_len, CAUSAL: tl.constexpr, WINDOW: tl.constexpr):
    """A mask of the keys that each query sees; rows are positions among the keys."""
    seen = (columns < kv_len)[None, :]
    if CAUSAL:
        seen = seen & (columns[None, :] <= rows[:, None])
    if WINDOW:
        distance = rows[:, None] - columns[None, :]
        seen = seen & (distance < WINDOW) & (distance > -WINDOW)
    return seen


@triton.jit
def _walk(state, queries, k, v, span, score, MASK: tl.constexpr, C: tl.constexpr):
    """Attends to the keys [begin, end), from a multiple of BLOCK_N. `queries`: values [BLOCK_M, BLOCK_D] and rows;
    `span`: begin, end, the sequence's length; `score` as in `attention_forward`.
    """
    total, largest, weight = state
    q, rows = queries
    begin, end, kv_len = span
    scale, softcap, _ = score
    columns, depth = tl.arange(0, C.BLOCK_N), tl.arange(0, C.BLOCK_D)
    k_offsets = depth[:, None] + columns[None, :] * k.token
    v_offsets = columns[:, None] * v.token + depth[None, :]
    for start in range(begin, end, C.BLOCK_N):
        k_block, v_block = k.data + tl.cast(start, tl.int64) * k.token, v.data + tl.cast(start, tl.int64) * v.token
        k_mask, v_mask = depth[:, None] < C.HEAD_DIM, depth[None, :] < C.HEAD_DIM
        if MASK:
            k_mask = k_mask & (start + columns < kv_len)[None, :]
            v_mask = v_mask & (start + columns < kv_len)[:, None]
        if MASK or C.HEAD_DIM != C.BLOCK_D:
            keys = tl.load(k_block + k_offsets, mask=k_mask, other=0.0)
        else:
            keys = tl.load(k_block + k_offsets)
        scores = tl.dot(q, keys, input_precision=C.PRECISION) * scale
        if C.SOFTCAP:
            scores = softcap * LOG2_E * (1 - 2 / (1 + tl.exp2(scores * (2 * LOG2_E / softcap))))
        if MASK:
            scores = tl.where(_visible(rows, start + columns, kv_len, C.CAUSAL, C.WINDOW), scores, float("-inf"))
        grown = tl.maximum(largest, tl.max(scores, 1))
        base = tl.where(grown == float("-inf"), 0.0, grown)
        probs = tl.exp2(scores - base[:, None])
        shrink = tl.exp2(largest - base)
        weight = weight * shrink + tl.sum(probs, 1)
        if MASK or C.HEAD_DIM != C.BLOCK_D:
            values = tl.load(v_block + v_offsets, mask=v_mask, other=0.0)
        else:
            values = tl.load(v_block + v_offsets)
        total = tl.dot(probs.to(values.dtype), values, total * shrink[:, None], input_precision=C.PRECISION)
        largest = grown
    return total, largest, weight


@triton.jit
def attention_forward(q, k, v, o, tiles, shape, score, C: tl.constexpr):
    """o [batch, q_len, heads, HEAD_DIM], contiguous; q, k, v as the fields of `Strided`.

    Grid: batch · heads · tile_count. The last tiles of queries come first: with causality they take longest.
    `tiles`: a table [tile_count, 3] int32 and tile_count. The table is read when PACKED: start and length of a tile's
    sequence, and the tile's first row in it. `shape`: heads, heads of a KV head, q_len and kv_len. `score`: the scale
    of q · k, with log2 e unless there is a soft cap, the soft cap, and the sinks [heads], read where there are SINKS.
    """
    pdl_prologue(C.PDL)
    q, k, v = Strided(*q), Strided(*k), Strided(*v)
    table, tile_count = tiles
    heads, group, q_len, kv_len = shape
    program = tl.program_id(0)
    tile = tile_count - 1 - program % tile_count
    head, batch = program // tile_count % heads, tl.cast(program // tile_count // heads, tl.int64)
    if C.PACKED:
        first = tl.cast(tl.load(table + tile * 3), tl.int64)
        q_len, start = tl.load(table + tile * 3 + 1), tl.load(table + tile * 3 + 2)
        kv_len = q_len
        o_first = first
    else:
        start, first, o_first = tile * C.BLOCK_M, tl.cast(0, tl.int64), batch * q_len
    q_data = q.data + (batch * q.first + tl.cast(head, tl.int64) * q.head + (first + start) * q.token)
    k_data = k.data + (batch * k.first + tl.cast(head // group, tl.int64) * k.head + first * k.token)
    v_data = v.data + (batch * v.first + tl.cast(head // group, tl.int64) * v.head + first * v.token)
    o += ((o_first + start) * heads + head) * C.HEAD_DIM

    row, depth = tl.arange(0, C.BLOCK_M), tl.arange(0, C.BLOCK_D)
    inside = (start + row < q_len)[:, None] & (depth < C.HEAD_DIM)[None, :]
    queries = tl.load(q_data + tl.cast(row, tl.int64)[:, None] * q.token + depth[None, :], mask=inside, other=0.0)
    position = start + (kv_len - q_len)
    begin, whole_begin, end, whole_end = 0, 0, kv_len, kv_len
    if C.WINDOW:
        begin = tl.maximum(position - C.WINDOW + 1, 0) // C.BLOCK_N * C.BLOCK_N
        whole_begin = (tl.maximum(position + C.BLOCK_M - C.WINDOW, 0) + C.BLOCK_N - 1) // C.BLOCK_N * C.BLOCK_N
        end, whole_end = tl.minimum(end, position + C.BLOCK_M + C.WINDOW - 1), tl.minimum(end, position + C.WINDOW)
    if C.CAUSAL:
        end, whole_end = tl.minimum(end, position + C.BLOCK_M), tl.minimum(whole_end, position + 1)
    whole_begin = tl.minimum(whole_begin, tl.maximum(end, 0))
    whole_end = tl.maximum(tl.maximum(whole_end, 0) // C.BLOCK_N * C.BLOCK_N, whole_begin)

    k, v = Strided(k_data, k.first, k.token, k.head), Strided(v_data, v.first, v.token, v.head)
    total = tl.full((C.BLOCK_M, C.BLOCK_D), 0.0, tl.float32)
    largest = tl.full((C.BLOCK_M,), 0.0 if C.SINKS else float("-inf"), tl.float32)
    weight = tl.full((C.BLOCK_M,), 0.0, tl.float32)
    if C.SINKS:  # a score without a value
        largest += tl.load(score[2] + head).to(tl.float32) * LOG2_E
        weight += 1.0
    state = (total, largest, weight)
    if C.WINDOW:
        state = _walk(state, (queries, position + row), k, v, (begin, whole_begin, kv_len), score, True, C)
    state = _walk(state, (queries, position + row), k, v, (whole_begin, whole_end, kv_len), score, False, C)
    state = _walk(state, (queries, position + row), k, v, (whole_end, end, kv_len), score, True, C)
    total, _, weight = state
    answer = total / tl.where(weight == 0, 1.0, weight)[:, None]
    o_offsets = tl.cast(row, tl.int64)[:, None] * heads * C.HEAD_DIM + depth[None, :]
    tl.store(o + o_offsets, answer.to(o.dtype.element_ty), mask=inside)


def config(case: AttentionCase, block_m: int, block_n: int, pdl: bool) -> Config:
    """The kernel's constants for a case and a tile."""
    return Config(
        PACKED=case.lengths is not None,
        CAUSAL=case.causal,
        WINDOW=case.window or 0,
        SOFTCAP=case.softcap is not None,
        SINKS=bool(case.sinks),
        HEAD_DIM=case.head_dim,
        BLOCK_D=max(16, triton.next_power_of_2(case.head_dim)),
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        PRECISION="ieee" if case.dtype == "fp32" else "tf32",
        PDL=pdl,
    )
