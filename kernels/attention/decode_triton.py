"""Attention of a few queries over a long KV cache, in Triton: split along the keys, merged by the last program to
arrive.

program (KV head, split, sequence)
    q of all the head's queries and grouped heads  [rows, head_dim]   registers
    for its tiles of keys:  k, v ──cp.async──► shared memory ──► s = q·kᵀ ──► running max, sum ──► acc += p·v
    acc / sum and log2 of the sum ──► parts, sums (float32)
    arrivals + 1; the last of `splits` programs reads all parts of this head and sequence in order, writes o, and
    resets the counter
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl

from kernels.cuda.strided_triton import Strided


class Config(NamedTuple):
    """The constants of a build; zero is none."""

    HEAD_DIM: int
    BLOCK_D: int
    """HEAD_DIM, rounded up to a power of two"""
    BLOCK_N: int
    """keys of a tile"""
    PAGE_SIZE: int
    Q_LEN: int
    GROUP: int
    """query heads of a KV head"""
    REAL: int
    """queries times grouped heads"""
    ROWS: int
    """REAL as `tl.dot` takes it: a power of two of at least 16"""
    REAL_BLOCK: int
    """REAL, rounded up to a power of two"""
    CAUSAL: bool
    WINDOW: int
    SOFTCAP: bool
    SINKS: bool
    LENGTHS: bool
    """whether the launch gives lengths"""
    FP8: bool
    SPLITS: int
    CHUNK: int
    """parts that the merge reads at once"""
    STAGES: int


class Queries(NamedTuple):
    """A program's q [ROWS, BLOCK_D], the factor that makes q · k a score and the last visible key, each [ROWS]."""

    q: Any
    scale: Any
    last: Any


class PageTable(NamedTuple):
    """The page table of one sequence, and the number of pages."""

    table: Any
    count: Any


class Parts(NamedTuple):
    """What a split leaves for the merge, by pair of sequence and KV head: `sums` [pairs, SPLITS, REAL], the base-2
    logarithms of the sums of exponentials; `parts` [pairs, SPLITS, REAL, HEAD_DIM], the weighted means of the values;
    and `arrivals` [pairs], the number of splits that have stored theirs.
    """

    parts: Any
    sums: Any
    arrivals: Any


class Cache(NamedTuple):
    """What a launch says of the cache beside k and v: lengths [batch] or [1] and `more` keys on top of each, the
    capacity of a sequence, the page table and the number of pages, and the scales of an fp8 cache [kv_heads].
    """

    lengths: Any
    lengths_step: Any
    more: Any
    capacity: Any
    page_table: Any
    table_step: Any
    pages: Any
    k_scale: Any
    v_scale: Any


@triton.jit
def slot_offsets(start, end, k, v, pages, PAGE_SIZE: tl.constexpr, COUNT: tl.constexpr):
    """Offsets in k and in v of the keys from start on (int64 [COUNT]), and a mask: before end, on a valid page."""
    n = start + tl.arange(0, COUNT)
    known = n < end
    if PAGE_SIZE == 0:
        slot = n.to(tl.int64)
        return slot * k.token, slot * v.token, known
    if PAGE_SIZE % COUNT == 0:
        page = tl.load(pages.table + start // PAGE_SIZE) + tl.zeros([COUNT], tl.int32)
    else:
        page = tl.load(pages.table + n // PAGE_SIZE, mask=known, other=-1)
    known = known & (page >= 0) & (page < pages.count)
    page, slot = tl.where(known, page, 0).to(tl.int64), (n % PAGE_SIZE).to(tl.int64)
    return page * k.first + slot * k.token, page * v.first + slot * v.token, known


@triton.jit
def halves(pairs, dtype: tl.constexpr):
    """The two e4m3 values in each int16, widened."""
    low = (pairs & 0xFF).to(tl.int8).to(tl.float8e4nv, bitcast=True).to(dtype)
    return low, (pairs >> 8).to(tl.int8).to(tl.float8e4nv, bitcast=True).to(dtype)


@triton.jit
def attend(queries, k, v, pages, begin, end, softcap, C: tl.constexpr):
    """Attends to the keys of one KV head from begin up to end. Returns the running maximum, sum and products.

    `queries.scale` makes q·k base-2 scores (with SOFTCAP plain ones). An fp8 v comes as int16, two values in each. Its
    tile is transposed in 16-bit units for the tensor cores, as bf16 is, and two accumulators hold the products of even
    and odd dimensions.
    """
    q = queries.q
    acc = tl.full([C.ROWS, C.BLOCK_D // 2 if C.FP8 else C.BLOCK_D], 0.0, tl.float32)
    odd = acc
    top, total = tl.full([C.ROWS], float("-inf"), tl.float32), tl.full([C.ROWS], 0.0, tl.float32)
    d = tl.arange(0, C.BLOCK_D)
    e = tl.arange(0, C.BLOCK_D // 2 if C.FP8 else C.BLOCK_D)
    for start in tl.range(begin, end, C.BLOCK_N, num_stages=C.STAGES):
        n = start + tl.arange(0, C.BLOCK_N)
        inside = n < end
        k_at, v_at, known = slot_offsets(start, end, k, v, pages, C.PAGE_SIZE, C.BLOCK_N)
        keys = tl.load(k.data + k_at[None, :] + d[:, None], mask=known[None, :] & (d < C.HEAD_DIM)[:, None], other=0.0)
        scores = tl.dot(q, keys.to(q.dtype), input_precision="ieee") * queries.scale[:, None]
        if C.SOFTCAP:  # cap · tanh(s / cap), in base 2
            scores = softcap * 1.4426950408889634 * (2 * tl.sigmoid(scores * (2 / softcap)) - 1)
        if C.PAGE_SIZE:
            scores = tl.where((inside & (known == 0))[None, :], float("nan"), scores)
        seen = inside[None, :]
        if C.CAUSAL:
            seen = seen & (n[None, :] <= queries.last[:, None])
        if C.WINDOW:
            last = queries.last[:, None]
            seen = seen & (last - n[None, :] < C.WINDOW) & (n[None, :] - last < C.WINDOW)
        scores = tl.where(seen, scores, float("-inf"))
        higher = tl.maximum(top, tl.max(scores, axis=1))
        base = tl.where(higher == float("-inf"), 0.0, higher)
        p = tl.exp2(scores - base[:, None])
        fade = tl.exp2(top - base)
        total = total * fade + tl.sum(p, axis=1)
        mask = known[:, None] & (e < (C.HEAD_DIM // 2 if C.FP8 else C.HEAD_DIM))[None, :]
        values = tl.load(v.data + v_at[:, None] + e[None, :], mask=mask, other=0)
        if C.FP8:
            low, high = halves(values, q.dtype)
            acc = tl.dot(p.to(q.dtype), low, acc * fade[:, None])
            odd = tl.dot(p.to(q.dtype), high, odd * fade[:, None])
        else:
            acc = tl.dot(p.to(q.dtype), values, acc * fade[:, None], input_precision="ieee")
        top = higher
    if C.FP8:
        acc = tl.reshape(tl.join(acc, odd), [C.ROWS, C.BLOCK_D])
    return top, total, acc


@triton.jit
def with_sinks(state, sinks):
    """The state of `attend` with one more base-2 score for each row, which has no value."""
    top, total, acc = state
    higher = tl.maximum(top, sinks)
    base = tl.where(higher == float("-inf"), 0.0, higher)
    fade = tl.exp2(top - base)
    return higher, total * fade + tl.exp2(sinks - base), acc * fade[:, None]


@triton.jit
def share_of_keys(length, first, split, SPLITS: tl.constexpr, BLOCK_N: tl.constexpr):
    """The first and last key of a split: whole tiles of the keys from first to length, divided evenly."""
    first = first // BLOCK_N * BLOCK_N
    tiles = tl.cdiv(length - first, BLOCK_N)
    begin = first + tiles * split // SPLITS * BLOCK_N
    return begin, tl.minimum(first + tiles * (split + 1) // SPLITS * BLOCK_N, length)


@triton.jit
def write(out, row, o, o_at, C: tl.constexpr):
    """out [rows, BLOCK_D] to o + o_at; row r below REAL is query r // GROUP of grouped head r % GROUP."""
    d = tl.arange(0, C.BLOCK_D)
    to = o_at + (row // C.GROUP)[:, None] * o.token + (row % C.GROUP)[:, None] * o.head + d[None, :]
    tl.store(o.data + to, out.to(o.data.dtype.element_ty), mask=(row < C.REAL)[:, None] & (d < C.HEAD_DIM)[None, :])


@triton.jit
def merge(scratch, first, factor, o, o_at, C: tl.constexpr):
    """o = factor · Σ prob · part over the splits, in order. A split's probability is 2^(its sum) / Σ 2^(sums)."""
    row, d = tl.arange(0, C.REAL_BLOCK), tl.arange(0, C.BLOCK_D)
    highest = tl.full([C.REAL_BLOCK], float("-inf"), tl.float32)
    denominator = tl.full([C.REAL_BLOCK], 0.0, tl.float32)
    added = tl.full([C.REAL_BLOCK, C.BLOCK_D], 0.0, tl.float32)
    for chunk in tl.range(0, C.SPLITS, C.CHUNK):
        each = chunk + tl.arange(0, C.CHUNK)
        valid = (each < C.SPLITS)[:, None] & (row < C.REAL)[None, :]
        at = first + each[:, None] * C.REAL + row[None, :]
        weight = tl.load(scratch.sums + at, mask=valid, other=float("-inf"), cache_modifier=".cg")
        written = valid[:, :, None] & (d < C.HEAD_DIM)[None, None, :]
        from_ = scratch.parts + at[:, :, None] * C.HEAD_DIM + d[None, None, :]
        part = tl.load(from_, written, other=0.0, cache_modifier=".cg")
        higher = tl.maximum(highest, tl.max(weight, axis=0))
        base = tl.where(higher == float("-inf"), 0.0, higher)
        probs, fade = tl.exp2(weight - base[None, :]), tl.exp2(highest - base)
        part = tl.where((weight == float("-inf"))[:, :, None], 0.0, part)  # a split without keys contributes nothing
        added = added * fade[:, None] + tl.sum(part * probs[:, :, None], axis=0)
        denominator, highest = denominator * fade + tl.sum(probs, axis=0), higher
    out = added * (factor / tl.where(denominator == 0, 1.0, denominator))[:, None]
    write(out, row, o, o_at, C)


@triton.jit
def finish(state, factor, scratch, pair, split, o, o_at, C: tl.constexpr):
    """Stores this split's part; the last of a pair to arrive merges all into o, in order, so that sums are alike."""
    top, total, acc = state
    row, d = tl.arange(0, C.ROWS), tl.arange(0, C.BLOCK_D)
    out = acc / tl.where(total == 0, 1.0, total)[:, None]
    if C.SPLITS == 1:
        write(out * factor, row, o, o_at, C)
    else:
        first = pair * (C.SPLITS * C.REAL)
        at = first + split * C.REAL + row
        tl.store(scratch.sums + at, tl.where(total == 0, float("-inf"), top + tl.log2(total)), mask=row < C.REAL)
        some = ((row < C.REAL) & (total != 0))[:, None] & (d < C.HEAD_DIM)[None, :]
        tl.store(scratch.parts + at[:, None] * C.HEAD_DIM + d[None, :], out, mask=some)
        tl.debug_barrier()
        if tl.atomic_add(scratch.arrivals + pair, 1, sem="acq_rel") == C.SPLITS - 1:
            tl.store(scratch.arrivals + pair, 0)
            merge(scratch, first, factor, o, o_at, C)


@triton.jit
def decode(q, k, v, o, scratch, cache, score, C: tl.constexpr):
    """One split of one KV head of one sequence. Grid: KV heads, splits, sequences.

    q, k, v and o are fields of `Strided`, scratch of `Parts`, cache of `Cache`. lengths[b] + more keys are in the cache
    (LENGTHS false: `capacity`). score: the scale of q · k, with log2 e unless there is a soft cap, the soft cap, and
    the sinks [heads], which are read where there are SINKS.
    """
    q, k, v, o = Strided(*q), Strided(*k), Strided(*v), Strided(*o)
    scratch, cache = Parts(*scratch), Cache(*cache)
    scale, softcap, sinks = score
    head, split, sequence = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    length, wrong = cache.capacity, False
    if C.LENGTHS:
        given = tl.load(cache.lengths + sequence * cache.lengths_step).to(tl.int64) + cache.more
        wrong = (given < 0) | (given > cache.capacity)
        length = tl.where(wrong, 0, given).to(tl.int32)
    first = 0
    if C.WINDOW:
        first = tl.maximum(length - C.Q_LEN - C.WINDOW + 1, 0)
    begin, end = share_of_keys(length, first, split, C.SPLITS, C.BLOCK_N)

    k_data, v_data = k.data, v.data
    if C.PAGE_SIZE == 0:
        k_data += sequence * k.first
        v_data += sequence * v.first
    k_data += head.to(tl.int64) * k.head
    v_data += head.to(tl.int64) * v.head

    row, d = tl.arange(0, C.ROWS), tl.arange(0, C.BLOCK_D)
    at = sequence * q.first + (row // C.GROUP)[:, None] * q.token + (head * C.GROUP + row % C.GROUP)[:, None] * q.head
    inside = (row < C.REAL)[:, None] & (d < C.HEAD_DIM)[None, :]
    rows = tl.load(q.data + at + d[None, :], mask=inside, other=0.0)
    scales = tl.full([C.ROWS], scale, tl.float32)
    factor = tl.where(wrong, float("nan"), 1.0)
    if C.FP8:  # e4m3 converts to fp16 exactly; q fits too after its rows are scaled into [-1, 1]
        wide = rows.to(tl.float32)
        largest = tl.max(tl.abs(wide), axis=1)
        largest = tl.where(largest > 0, largest, 1.0)
        rows = (wide / largest[:, None]).to(tl.float16)
        scales *= largest * tl.load(cache.k_scale + head)
        factor *= tl.load(cache.v_scale + head)
    state = attend(
        Queries(rows, scales, length - C.Q_LEN + row // C.GROUP),
        Strided(k_data, k.first, k.token, k.head), Strided(v_data, v.first, v.token, v.head),
        PageTable(cache.page_table + sequence * cache.table_step, cache.pages), begin, end, softcap, C,
    )  # fmt: skip
    if C.SINKS:  # those of the first split join the sums
        sink = tl.load(sinks + head * C.GROUP + row % C.GROUP).to(tl.float32) * 1.4426950408889634
        state = with_sinks(state, tl.where(split == 0, sink, float("-inf")))
    pair, o_at = sequence * tl.num_programs(0) + head, sequence * o.first + head.to(tl.int64) * C.GROUP * o.head
    finish(state, factor, scratch, pair, split, o, o_at, C)


def row_constants(rows: int, group: int, head_dim: int, splits: int, warps: int) -> dict[str, int]:
    """Constants for `rows` queries times grouped heads. The merge reads as many splits as fit into 64 registers."""
    block_d, real_block = triton.next_power_of_2(max(16, head_dim)), triton.next_power_of_2(rows)
    return {
        "HEAD_DIM": head_dim, "BLOCK_D": block_d, "GROUP": group, "REAL": rows, "ROWS": max(16, real_block),
        "REAL_BLOCK": real_block, "SPLITS": splits, 
        "CHUNK": min(max(1, 64 * 32 * warps // (real_block * block_d)), triton.next_power_of_2(splits)),
    }  # fmt: skip
