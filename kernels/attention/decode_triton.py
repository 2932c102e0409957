"""Attention of a few queries over a long KV cache, in Triton: split along the keys, merged by the last program to
arrive.

program (KV head, split, sequence)
    q of all the head's queries and grouped heads  [rows, head_dim]   registers
    for its tiles of keys:  k, v ──cp.async──► shared memory ──► s = q·kᵀ ──► running max, sum ──► acc += p·v
    acc / sum and log2 of the sum ──► parts, sums (float32)
    arrivals + 1; the last of `splits` programs reads all parts of this head and sequence in order, writes o, and
    resets the counter
"""

import torch
import triton
import triton.language as tl


@triton.jit
def places(
    start, end, page_table, pages, k_page, k_token, v_page, v_token, PAGE_SIZE: tl.constexpr, COUNT: tl.constexpr
):
    """Offsets in k and in v of keys start, start + 1, … (int64 [COUNT]), and a mask: before end, on a valid page."""
    n = start + tl.arange(0, COUNT)
    known = n < end
    if PAGE_SIZE == 0:
        slot = n.to(tl.int64)
        return slot * k_token, slot * v_token, known
    if PAGE_SIZE % COUNT == 0:
        page = tl.load(page_table + start // PAGE_SIZE) + tl.zeros([COUNT], tl.int32)
    else:
        page = tl.load(page_table + n // PAGE_SIZE, mask=known, other=-1)
    known = known & (page >= 0) & (page < pages)
    page, slot = tl.where(known, page, 0).to(tl.int64), (n % PAGE_SIZE).to(tl.int64)
    return page * k_page + slot * k_token, page * v_page + slot * v_token, known


@triton.jit
def halves(pairs, dtype: tl.constexpr):
    """The two e4m3 values in each int16, widened."""
    low = (pairs & 0xFF).to(tl.int8).to(tl.float8e4nv, bitcast=True).to(dtype)
    return low, (pairs >> 8).to(tl.int8).to(tl.float8e4nv, bitcast=True).to(dtype)


@triton.jit
def attend(
    q, scale, last, top, total, acc, odd, k, v, page_table, begin, end, pages, k_page, k_token, v_page, v_token,
    softcap, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr, PAGE_SIZE: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SOFTCAP: tl.constexpr, STAGES: tl.constexpr, FP8: tl.constexpr,
):  # fmt: skip
    """Attends to keys begin … end of one KV head. Returns the running maximum, sum and products.

    q is [rows, BLOCK_D] at positions last [rows]; scale [rows] makes q·k base-2 scores (with SOFTCAP plain ones). An
    fp8 v comes as int16, two values in each. Its tile is transposed in 16-bit units for the tensor cores, as bf16 is;
    acc and odd hold the products of even and odd dimensions. For other dtypes odd is unchanged.
    """
    d = tl.arange(0, BLOCK_D)
    e = tl.arange(0, BLOCK_D // 2 if FP8 else BLOCK_D)
    for start in tl.range(begin, end, BLOCK_N, num_stages=STAGES):
        n = start + tl.arange(0, BLOCK_N)
        inside = n < end
        k_at, v_at, known = places(
            start, end, page_table, pages, k_page, k_token, v_page, v_token, PAGE_SIZE, BLOCK_N
        )  # fmt: skip
        keys = tl.load(k + k_at[None, :] + d[:, None], mask=known[None, :] & (d < HEAD_DIM)[:, None], other=0.0)
        scores = tl.dot(q, keys.to(q.dtype), input_precision="ieee") * scale[:, None]
        if SOFTCAP:  # cap · tanh(s / cap), in base 2
            scores = softcap * 1.4426950408889634 * (2 * tl.sigmoid(scores * (2 / softcap)) - 1)
        if PAGE_SIZE:
            scores = tl.where((inside & (known == 0))[None, :], float("nan"), scores)
        seen = inside[None, :]
        if CAUSAL:
            seen = seen & (n[None, :] <= last[:, None])
        if WINDOW:
            seen = seen & (last[:, None] - n[None, :] < WINDOW) & (n[None, :] - last[:, None] < WINDOW)
        scores = tl.where(seen, scores, float("-inf"))
        higher = tl.maximum(top, tl.max(scores, axis=1))
        base = tl.where(higher == float("-inf"), 0.0, higher)
        p = tl.exp2(scores - base[:, None])
        fade = tl.exp2(top - base)
        total = total * fade + tl.sum(p, axis=1)
        mask = known[:, None] & (e < (HEAD_DIM // 2 if FP8 else HEAD_DIM))[None, :]
        values = tl.load(v + v_at[:, None] + e[None, :], mask=mask, other=0)
        if FP8:
            low, high = halves(values, q.dtype)
            acc = tl.dot(p.to(q.dtype), low, acc * fade[:, None])
            odd = tl.dot(p.to(q.dtype), high, odd * fade[:, None])
        else:
            acc = tl.dot(p.to(q.dtype), values, acc * fade[:, None], input_precision="ieee")
        top = higher
    return top, total, acc, odd


@triton.jit
def share_of_keys(length, first, split, SPLITS: tl.constexpr, BLOCK_N: tl.constexpr):
    """The first and last key of a split: whole tiles of the keys first … length, divided as evenly as possible."""
    first = first // BLOCK_N * BLOCK_N
    tiles = tl.cdiv(length - first, BLOCK_N)
    begin = first + tiles * split // SPLITS * BLOCK_N
    return begin, tl.minimum(first + tiles * (split + 1) // SPLITS * BLOCK_N, length)


@triton.jit
def write(
    out,
    row,
    o_at,
    o,
    o_token,
    o_head,
    REAL: tl.constexpr,
    GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """out [rows, BLOCK_D] to o + o_at; row r below REAL is query r // GROUP of grouped head r % GROUP."""
    d = tl.arange(0, BLOCK_D)
    to = o_at + (row // GROUP)[:, None] * o_token + (row % GROUP)[:, None] * o_head + d[None, :]
    tl.store(o + to, out.to(o.dtype.element_ty), mask=(row < REAL)[:, None] & (d < HEAD_DIM)[None, :])


@triton.jit
def merge(
    parts, sums, first, factor, o_at, o, o_token, o_head, REAL: tl.constexpr, GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, SPLITS: tl.constexpr, CHUNK: tl.constexpr, REAL_BLOCK: tl.constexpr,
):  # fmt: skip
    """o = factor · Σ share · part over the splits, in order. A split's share is 2^(its sum) / Σ 2^(sums)."""
    row, d = tl.arange(0, REAL_BLOCK), tl.arange(0, BLOCK_D)
    highest = tl.full([REAL_BLOCK], float("-inf"), tl.float32)
    shares = tl.zeros([REAL_BLOCK], tl.float32)
    added = tl.zeros([REAL_BLOCK, BLOCK_D], tl.float32)
    for chunk in tl.range(0, SPLITS, CHUNK):
        each = chunk + tl.arange(0, CHUNK)
        valid = (each < SPLITS)[:, None] & (row < REAL)[None, :]
        at = first + each[:, None] * REAL + row[None, :]
        weight = tl.load(sums + at, mask=valid, other=float("-inf"), cache_modifier=".cg")
        written = valid[:, :, None] & (d < HEAD_DIM)[None, None, :]
        part = tl.load(parts + at[:, :, None] * HEAD_DIM + d[None, None, :], written, other=0.0, cache_modifier=".cg")
        higher = tl.maximum(highest, tl.max(weight, axis=0))
        base = tl.where(higher == float("-inf"), 0.0, higher)
        share, fade = tl.exp2(weight - base[None, :]), tl.exp2(highest - base)
        part = tl.where((weight == float("-inf"))[:, :, None], 0.0, part)  # a split without keys contributes nothing
        added = added * fade[:, None] + tl.sum(part * share[:, :, None], axis=0)
        shares, highest = shares * fade + tl.sum(share, axis=0), higher
    out = added * (factor / tl.where(shares == 0, 1.0, shares))[:, None]
    write(out, row, o_at, o, o_token, o_head, REAL, GROUP, HEAD_DIM, BLOCK_D)


@triton.jit
def finish(
    top, total, acc, factor, parts, sums, arrivals, pair, split, o_at, o, o_token, o_head,
    ROWS: tl.constexpr, REAL: tl.constexpr, GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    SPLITS: tl.constexpr, CHUNK: tl.constexpr, REAL_BLOCK: tl.constexpr,
):  # fmt: skip
    """Stores this split's part. The last split of a pair (sequence, KV head) to arrive merges all parts into o.

    It adds them in the order of the splits, so the sum does not depend on which split is last.
    """
    row, d = tl.arange(0, ROWS), tl.arange(0, BLOCK_D)
    out = acc / tl.where(total == 0, 1.0, total)[:, None]
    if SPLITS == 1:
        write(out * factor, row, o_at, o, o_token, o_head, REAL, GROUP, HEAD_DIM, BLOCK_D)
    else:
        first = pair * (SPLITS * REAL)
        at = first + split * REAL + row
        tl.store(sums + at, tl.where(total == 0, float("-inf"), top + tl.log2(total)), mask=row < REAL)
        some = ((row < REAL) & (total != 0))[:, None] & (d < HEAD_DIM)[None, :]
        tl.store(parts + at[:, None] * HEAD_DIM + d[None, :], out, mask=some)
        tl.debug_barrier()
        if tl.atomic_add(arrivals + pair, 1, sem="acq_rel") == SPLITS - 1:
            tl.store(arrivals + pair, 0)
            merge(
                parts, sums, first, factor, o_at, o, o_token, o_head,
                REAL, GROUP, HEAD_DIM, BLOCK_D, SPLITS, CHUNK, REAL_BLOCK,
            )  # fmt: skip


@triton.jit
def decode(
    q, k, v, o, parts, sums, arrivals, lengths, page_table, k_scale, v_scale,
    q_batch, q_token, q_head, o_batch, o_token, o_head, k_first, k_token, k_head, v_first, v_token, v_head,
    lengths_step, table_step, more, capacity, pages, scale, softcap,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr, PAGE_SIZE: tl.constexpr,
    Q_LEN: tl.constexpr, GROUP: tl.constexpr, REAL: tl.constexpr, ROWS: tl.constexpr, REAL_BLOCK: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SOFTCAP: tl.constexpr, LENGTHS: tl.constexpr, FP8: tl.constexpr,
    SPLITS: tl.constexpr, CHUNK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """One split of one KV head of one sequence; lengths[b] + more keys are in the cache (LENGTHS false: `capacity`)."""
    head, split, sequence = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    length, wrong = capacity, False
    if LENGTHS:
        given = tl.load(lengths + sequence * lengths_step).to(tl.int64) + more
        wrong = (given < 0) | (given > capacity)
        length = tl.where(wrong, 0, given).to(tl.int32)
    first = 0
    if WINDOW:
        first = tl.maximum(length - Q_LEN - WINDOW + 1, 0)
    begin, end = share_of_keys(length, first, split, SPLITS, BLOCK_N)

    if PAGE_SIZE == 0:
        k += sequence * k_first
        v += sequence * v_first
    k += head.to(tl.int64) * k_head
    v += head.to(tl.int64) * v_head

    row, d = tl.arange(0, ROWS), tl.arange(0, BLOCK_D)
    at = sequence * q_batch + (row // GROUP)[:, None] * q_token + (head * GROUP + row % GROUP)[:, None] * q_head
    queries = tl.load(q + at + d[None, :], mask=(row < REAL)[:, None] & (d < HEAD_DIM)[None, :], other=0.0)
    scales = tl.full([ROWS], scale, tl.float32)
    factor = tl.where(wrong, float("nan"), 1.0)
    if FP8:  # e4m3 converts to fp16 exactly; q fits too after its rows are scaled into [-1, 1]
        wide = queries.to(tl.float32)
        largest = tl.max(tl.abs(wide), axis=1)
        largest = tl.where(largest > 0, largest, 1.0)
        queries = (wide / largest[:, None]).to(tl.float16)
        scales *= largest * tl.load(k_scale + head)
        factor *= tl.load(v_scale + head)
    acc = tl.zeros([ROWS, BLOCK_D // 2 if FP8 else BLOCK_D], tl.float32)
    top, total, acc, odd = attend(
        queries, scales, length - Q_LEN + row // GROUP,
        tl.full([ROWS], float("-inf"), tl.float32), tl.zeros([ROWS], tl.float32), acc, acc,
        k, v, page_table + sequence * table_step, begin, end, pages, k_first, k_token, v_first, v_token, softcap,
        HEAD_DIM, BLOCK_D, BLOCK_N, PAGE_SIZE, CAUSAL, WINDOW, SOFTCAP, STAGES, FP8,
    )  # fmt: skip
    if FP8:
        acc = tl.reshape(tl.join(acc, odd), [ROWS, BLOCK_D])
    finish(
        top, total, acc, factor, parts, sums, arrivals, sequence * tl.num_programs(0) + head, split,
        sequence * o_batch + head.to(tl.int64) * GROUP * o_head, o, o_token, o_head,
        ROWS, REAL, GROUP, HEAD_DIM, BLOCK_D, SPLITS, CHUNK, REAL_BLOCK,
    )  # fmt: skip


class Scratch:
    """The buffers between splits and merge: new parts for each call, and counters that return to zero.

    A set of counters belongs to one built function and one stream, whose calls run in order. All CUDA graphs of one
    function share another set, zeroed before any capture: their replays must not overlap.
    """

    def __init__(self, pairs: int, splits: int, rows: int, head_dim: int) -> None:
        self.pairs, self.splits, self.rows, self.head_dim = pairs, splits, rows, head_dim
        self._arrivals: dict[tuple[torch.device, int | None], torch.Tensor] = {}
        if torch.cuda.is_available():
            self._counters(torch.device("cuda", torch.cuda.current_device()), None)

    def take(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """parts, sums and arrivals for one call on the device's current stream. Raises ValueError under the capture of
        a graph on another device than the one that was current when the function was built.
        """
        stream: int | None = 0
        if device.type == "cuda":
            capturing = torch.cuda.is_current_stream_capturing()
            stream = None if capturing else torch.cuda.current_stream(device).cuda_stream
            if capturing and (device, stream) not in self._arrivals:
                raise ValueError(f"q is on {device}, where this function was not built: a graph cannot capture it")
        count = self.pairs * self.splits * self.rows if self.splits > 1 else 1
        parts = torch.empty(count * self.head_dim, dtype=torch.float32, device=device)
        return parts, torch.empty(count, dtype=torch.float32, device=device), self._counters(device, stream)

    def _counters(self, device: torch.device, stream: int | None) -> torch.Tensor:
        if (device, stream) not in self._arrivals:
            self._arrivals[device, stream] = torch.zeros(self.pairs, dtype=torch.int32, device=device)
        return self._arrivals[device, stream]


def row_constants(rows: int, group: int, head_dim: int, splits: int, warps: int) -> dict[str, int]:
    """The kernel's constants for `rows` queries times grouped heads. The merge reads as many splits at once as fit into
    64 registers a thread.
    """
    block_d, real_block = triton.next_power_of_2(max(16, head_dim)), triton.next_power_of_2(rows)
    return {
        "HEAD_DIM": head_dim, "BLOCK_D": block_d, "GROUP": group, "REAL": rows, "ROWS": max(16, real_block),
        "REAL_BLOCK": real_block, "SPLITS": splits, 
        "CHUNK": min(max(1, 64 * 32 * warps // (real_block * block_d)), triton.next_power_of_2(splits)),
    }  # fmt: skip
