"""Tokens drawn from logits in Triton, without limits on top-k.

    parts   program (row, split)   the best score of a split of the vocabulary: the logit, or the logit and its noise
    pick    program (row)          the best of the splits; a row with top-k or top-p is read again, several times

What top-k and top-p keep is found without sorting. Logits become integers of the same order, and the smallest that is
kept is built from its highest bits down, two with each reading of the row: bits stay set while what lies at or above
still counts top-k tokens, or weighs top-p of the mass. The noise is Philox 4x32-10 (Salmon et al., SC 2011), as
`kernels.ops.sampling` has it.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.cuda.triton_launch import launch_once
from kernels.server.execution.inputs import Fields

BLOCK, WARPS = 4096, 8
PROGRAMS, MAX_SPLITS = 256, 32
"""Splits of a row: as many as make so many programs of all rows, a power of two."""


class Settings(NamedTuple):
    """Addresses of the rows' settings, as in `Fields`."""

    temperature: Any
    top_p: Any
    top_k: Any
    seed: Any
    stream: Any
    place: Any
    target: Any


@triton.jit
def _ordered(x):
    """uint32 in the order of the floats x; NaN becomes 0, below minus infinity."""
    bits = x.to(tl.uint32, bitcast=True)
    key = tl.where((bits >> 31) != 0, bits ^ 0xFFFFFFFF, bits | 0x80000000)
    return tl.where(x == x, key, 0)


@triton.jit
def _gumbel(seed, token, place, stream):
    """The noise of tokens [n] at `place` of their sequence, float32."""
    zero = tl.zeros_like(token)
    bits, _, _, _ = tl.philox(seed, token, zero + place, zero + stream, zero, 10)
    u = tl.minimum(bits.to(tl.float32) * 2.3283064365386963e-10 + 1.1641532182693481e-10, 1 - 5.9604644775390625e-08)
    small = u * (1 + u * (0.5 + u * (1.0 / 3 + u * 0.25)))  # -log(1 - u) without cancellation
    return -tl.log(tl.where(u < 0.01, small, -tl.log(1 - u)))


@triton.jit
def _best(best, place, score, token):
    """The running best score of each lane, and its token; the earlier one when two are equal."""
    higher = score > best
    return tl.where(higher, score, best), tl.where(higher, token, place)


@triton.jit
def _measure(row, vocab, trials, scale, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """For each of three trials, how many logits reach it, or the sum of their exp((logit - top) / heat)."""
    low, middle, high = trials
    top, heat = scale
    first = tl.zeros([BLOCK], tl.float32)
    second, third = first, first
    for start in range(0, vocab, BLOCK):
        token = start + tl.arange(0, BLOCK)
        x = tl.load(row + token, mask=token < vocab, other=float("-inf")).to(tl.float32)
        key = tl.where((token < vocab) & (x == x), _ordered(x), 0)
        weight = tl.full([BLOCK], 1.0, tl.float32) if COUNT else tl.exp((x - top) / heat)
        first += tl.where(key >= low, weight, 0.0)
        second += tl.where(key >= middle, weight, 0.0)
        third += tl.where(key >= high, weight, 0.0)
    return tl.sum(first), tl.sum(second), tl.sum(third)


@triton.jit
def _smallest_kept(row, vocab, least, wanted, scale, COUNT: tl.constexpr, BLOCK: tl.constexpr, BITS: tl.constexpr):
    """The largest integer from `least` on that logits reach `wanted` times, or by weight: two bits a reading."""
    result = tl.full([], 0, tl.uint32)
    for pair in range(BITS // 2):
        step = tl.full([], 0x40000000, tl.uint32) >> (2 * pair)
        low, middle, high = result | step, result | (2 * step), result | (3 * step)
        trials = tl.maximum(low, least), tl.maximum(middle, least), tl.maximum(high, least)
        first, second, third = _measure(row, vocab, trials, scale, COUNT, BLOCK)
        result = tl.where(
            third >= wanted, high, tl.where(second >= wanted, middle, tl.where(first >= wanted, low, result))
        )
    return tl.maximum(result, least)


@triton.jit
def _truncates(given, row, vocab):
    """Whether the row keeps some tokens only: (temperature, top-k, top-p, whether it does)."""
    heat = tl.load(given.temperature + row)
    top_k, top_p = tl.load(given.top_k + row), tl.load(given.top_p + row)
    return heat, top_k, top_p, (heat > 0) & (((top_k > 0) & (top_k < vocab)) | (top_p < 1))


@triton.jit
def _noise(given, row):
    """Seed, stream and place of the row's draw."""
    seed, stream = tl.load(given.seed + row), tl.load(given.stream + row).to(tl.int32)
    return seed, stream, tl.load(given.place + row).to(tl.int32)


@triton.jit
def _first_of_best(best, place, vocab):
    """The best score of all lanes and its token, the first of equal ones."""
    top = tl.max(best)
    return top, tl.min(tl.where(best == top, place, vocab))


@triton.jit(do_not_specialize=["splits"])
def _parts(rows, settings, parts, splits, BLOCK: tl.constexpr):
    """The best score of a split, and its token, with noise where the row keeps all; parts [rows, splits]."""
    given = Settings(*settings)
    logits, step, vocab = rows
    scores, tokens = parts
    program, split = tl.program_id(0), tl.program_id(1)
    row = logits + program.to(tl.int64) * step
    heat, _, _, some = _truncates(given, program, vocab)
    noisy = (heat > 0) & (some == 0)
    seed, stream, place_of = _noise(given, program)
    share = tl.cdiv(tl.cdiv(vocab, splits), BLOCK) * BLOCK
    best = tl.full([BLOCK], float("-inf"), tl.float32)
    place = tl.full([BLOCK], 0, tl.int32)
    for start in range(split * share, tl.minimum((split + 1) * share, vocab), BLOCK):
        token = start + tl.arange(0, BLOCK)
        x = tl.load(row + token, mask=token < vocab, other=float("-inf")).to(tl.float32)
        score = x
        if noisy:
            score = x * (1 / heat) + _gumbel(seed, token, place_of, stream)
        best, place = _best(best, place, tl.where((token < vocab) & (x == x), score, float("-inf")), token)
    top, chosen = _first_of_best(best, place, vocab)
    tl.store(scores + program * splits + split, top)
    tl.store(tokens + program * splits + split, chosen)


@triton.jit
def _kept_best(row, vocab, heat, top, kept, noise, BLOCK: tl.constexpr, BITS: tl.constexpr):
    """The best noisy score of the tokens that top-k and top-p keep, and its token. `top` is the largest logit."""
    top_k, top_p = kept
    seed, stream, place_of = noise
    least = tl.full([], 1, tl.uint32)  # 0 is no number
    if (top_k > 0) & (top_k < vocab):
        least = _smallest_kept(row, vocab, least, top_k.to(tl.float32), (top, heat), True, BLOCK, BITS)
    if top_p < 1:
        mass, _, _ = _measure(row, vocab, (least, least, least), (top, heat), False, BLOCK)
        least = _smallest_kept(row, vocab, least, top_p * mass, (top, heat), False, BLOCK, BITS)
    best = tl.full([BLOCK], float("-inf"), tl.float32)
    place = tl.full([BLOCK], 0, tl.int32)
    for start in range(0, vocab, BLOCK):
        token = start + tl.arange(0, BLOCK)
        x = tl.load(row + token, mask=token < vocab, other=float("-inf")).to(tl.float32)
        inside = (token < vocab) & (x == x) & (_ordered(x) >= least)
        score = x * (1 / heat) + _gumbel(seed, token, place_of, stream)
        best, place = _best(best, place, tl.where(inside, score, float("-inf")), token)
    return _first_of_best(best, place, vocab)


@triton.jit(do_not_specialize=["splits"])
def _pick(rows, settings, parts, to, splits, PADDED_SPLITS: tl.constexpr, BLOCK: tl.constexpr, BITS: tl.constexpr):
    """One row's token, to both of `to`. PADDED_SPLITS: at least the splits. BITS: upper bits of the logits' dtype."""
    logits, step, vocab = rows
    scores, tokens = parts
    out, last = to
    given = Settings(*settings)
    program, split = tl.program_id(0), tl.arange(0, PADDED_SPLITS)
    best = tl.load(scores + program * splits + split, mask=split < splits, other=float("-inf"))
    place = tl.load(tokens + program * splits + split, mask=split < splits, other=0)
    top, chosen = _first_of_best(best, place, vocab)
    heat, top_k, top_p, some = _truncates(given, program, vocab)
    if some:
        row = logits + program.to(tl.int64) * step
        top, chosen = _kept_best(row, vocab, heat, top, (top_k, top_p), _noise(given, program), BLOCK, BITS)
    chosen = tl.where(top == float("-inf"), 0, chosen).to(tl.int64)
    tl.store(out + program, chosen)
    tl.store(last + tl.load(given.target + program), chosen)


def draw_rows(logits: Tensor, fields: Fields, out: Tensor, last: Tensor) -> None:
    """The ids of logits [sampled, vocab], whose rows are contiguous: to out [sampled] and last[target], int64."""
    rows, vocab = logits.shape
    if not rows:
        return
    settings = tuple(getattr(fields, name) for name in Settings._fields)
    bits = 16 if logits.dtype == torch.bfloat16 else 32
    wanted = min(max(1, PROGRAMS // rows), triton.cdiv(vocab, BLOCK))
    splits = min(MAX_SPLITS, triton.next_power_of_2(wanted))
    scores = torch.empty(rows, splits, dtype=torch.float32, device=logits.device)
    tokens = torch.empty(rows, splits, dtype=torch.int32, device=logits.device)
    given, parts = ((logits, logits.stride(0), vocab), settings), (scores, tokens)
    launch_once(_parts, (rows, splits), (*given, parts, splits, BLOCK), parts, num_warps=WARPS)
    picked = (*given, parts, (out, last), splits, MAX_SPLITS, BLOCK, bits)
    launch_once(_pick, (rows,), picked, out, num_warps=WARPS)
