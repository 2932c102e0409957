"""FlashAttention's forward pass in Triton: one program per tile of queries of one head.

A program keeps its queries and loops over the visible keys in blocks. For each row it keeps the running maximum of the
scores, the sum of their exponentials and the weighted sum of the values. Blocks that every row sees completely need no
mask. Exponentials are of base 2, with log2 e folded into the scale. Source: Dao, FlashAttention-2 (2023).
"""

from typing import Any

import triton
import triton.language as tl

from kernels.cuda.pdl_triton import pdl_prologue

LOG2_E = tl.constexpr(1.4426950408889634)


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
def _walk(
    state, q, k, v, k_row, v_row, rows, kv_len, begin, end, scale, softcap,
    MASK: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SOFTCAP: tl.constexpr,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Attends to the keys in [begin, end), a multiple of BLOCK_N from 0. `scale` includes log2 e."""
    total, largest, weight = state
    columns, depth = tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_D)
    k_offsets = depth[:, None] + columns[None, :] * k_row
    v_offsets = columns[:, None] * v_row + depth[None, :]
    for start in range(begin, end, BLOCK_N):
        k_block, v_block = k + tl.cast(start, tl.int64) * k_row, v + tl.cast(start, tl.int64) * v_row
        k_mask, v_mask = depth[:, None] < HEAD_DIM, depth[None, :] < HEAD_DIM
        if MASK:
            k_mask = k_mask & (start + columns < kv_len)[None, :]
            v_mask = v_mask & (start + columns < kv_len)[:, None]
        if MASK or HEAD_DIM != BLOCK_D:
            keys = tl.load(k_block + k_offsets, mask=k_mask, other=0.0)
        else:
            keys = tl.load(k_block + k_offsets)
        scores = tl.dot(q, keys, input_precision=PRECISION) * scale
        if SOFTCAP:
            scores = softcap * LOG2_E * (1 - 2 / (1 + tl.exp2(scores * (2 * LOG2_E / softcap))))
        if MASK:
            scores = tl.where(_visible(rows, start + columns, kv_len, CAUSAL, WINDOW), scores, float("-inf"))
        grown = tl.maximum(largest, tl.max(scores, 1))
        base = tl.where(grown == float("-inf"), 0.0, grown)
        shares = tl.exp2(scores - base[:, None])
        shrink = tl.exp2(largest - base)
        weight = weight * shrink + tl.sum(shares, 1)
        if MASK or HEAD_DIM != BLOCK_D:
            values = tl.load(v_block + v_offsets, mask=v_mask, other=0.0)
        else:
            values = tl.load(v_block + v_offsets)
        total = tl.dot(shares.to(values.dtype), values, total * shrink[:, None], input_precision=PRECISION)
        largest = grown
    return total, largest, weight


@triton.jit
def attention_forward(
    q, k, v, o, tiles,
    q_batch, q_row, q_head, k_batch, k_row, k_head, v_batch, v_row, v_head,
    heads, group, q_len, kv_len, tile_count, scale, softcap,
    PACKED: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SOFTCAP: tl.constexpr,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    PRECISION: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """o [batch, q_len, heads, HEAD_DIM], contiguous; q, k, v with their strides in elements, 1 along HEAD_DIM.

    Grid: batch · heads · tile_count. The last tiles of queries come first: with causality they take longest. `tiles`
    [tile_count, 3] int32 is read when PACKED: start and length of a tile's sequence, and the tile's first row in it.
    `scale` includes log2 e, unless there is a soft cap. WINDOW 0 means no window.
    """
    pdl_prologue(PDL)
    program = tl.program_id(0)
    tile = tile_count - 1 - program % tile_count
    head, batch = program // tile_count % heads, tl.cast(program // tile_count // heads, tl.int64)
    if PACKED:
        first = tl.cast(tl.load(tiles + tile * 3), tl.int64)
        q_len, start = tl.load(tiles + tile * 3 + 1), tl.load(tiles + tile * 3 + 2)
        kv_len = q_len
        o_first = first
    else:
        start, first, o_first = tile * BLOCK_M, tl.cast(0, tl.int64), batch * q_len
    q += batch * q_batch + tl.cast(head, tl.int64) * q_head + (first + start) * q_row
    k += batch * k_batch + tl.cast(head // group, tl.int64) * k_head + first * k_row
    v += batch * v_batch + tl.cast(head // group, tl.int64) * v_head + first * v_row
    o += ((o_first + start) * heads + head) * HEAD_DIM

    row, depth = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_D)
    inside = (start + row < q_len)[:, None] & (depth < HEAD_DIM)[None, :]
    queries = tl.load(q + tl.cast(row, tl.int64)[:, None] * q_row + depth[None, :], mask=inside, other=0.0)
    position = start + (kv_len - q_len)
    begin, whole_begin, end, whole_end = 0, 0, kv_len, kv_len
    if WINDOW:
        begin = tl.maximum(position - WINDOW + 1, 0) // BLOCK_N * BLOCK_N
        whole_begin = (tl.maximum(position + BLOCK_M - WINDOW, 0) + BLOCK_N - 1) // BLOCK_N * BLOCK_N
        end, whole_end = tl.minimum(end, position + BLOCK_M + WINDOW - 1), tl.minimum(end, position + WINDOW)
    if CAUSAL:
        end, whole_end = tl.minimum(end, position + BLOCK_M), tl.minimum(whole_end, position + 1)
    whole_begin = tl.minimum(whole_begin, tl.maximum(end, 0))
    whole_end = tl.maximum(tl.maximum(whole_end, 0) // BLOCK_N * BLOCK_N, whole_begin)

    total = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    state = (total, tl.full((BLOCK_M,), float("-inf"), tl.float32), tl.zeros((BLOCK_M,), tl.float32))
    if WINDOW:
        state = _walk(
            state, queries, k, v, k_row, v_row, position + row, kv_len, begin, whole_begin, scale, softcap,
            True, CAUSAL, WINDOW, SOFTCAP, HEAD_DIM, BLOCK_D, BLOCK_N, PRECISION,
        )  # fmt: skip
    state = _walk(
        state, queries, k, v, k_row, v_row, position + row, kv_len, whole_begin, whole_end, scale, softcap,
        False, CAUSAL, WINDOW, SOFTCAP, HEAD_DIM, BLOCK_D, BLOCK_N, PRECISION,
    )  # fmt: skip
    state = _walk(
        state, queries, k, v, k_row, v_row, position + row, kv_len, whole_end, end, scale, softcap,
        True, CAUSAL, WINDOW, SOFTCAP, HEAD_DIM, BLOCK_D, BLOCK_N, PRECISION,
    )  # fmt: skip
    total, _, weight = state
    answer = total / tl.where(weight == 0, 1.0, weight)[:, None]
    o_offsets = tl.cast(row, tl.int64)[:, None] * heads * HEAD_DIM + depth[None, :]
    tl.store(o + o_offsets, answer.to(o.dtype.element_ty), mask=inside)


def constants(case: Any, block_m: int, block_n: int) -> dict[str, Any]:
    """The kernel's compile-time arguments for an AttentionCase and a tile."""
    return {
        "PACKED": case.lengths is not None,
        "CAUSAL": case.causal,
        "WINDOW": case.window or 0,
        "SOFTCAP": case.softcap is not None,
        "HEAD_DIM": case.head_dim,
        "BLOCK_D": max(16, triton.next_power_of_2(case.head_dim)),
        "BLOCK_M": block_m,
        "BLOCK_N": block_n,
        "PRECISION": "ieee" if case.dtype == "fp32" else "tf32",
    }
