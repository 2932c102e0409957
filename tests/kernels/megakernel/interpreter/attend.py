"""How the interpreter's SMs attend: to a split of the keys, or in OUT to all; and how splits are merged."""

from collections.abc import Generator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kernels.megakernel.program.layout import groups_of, heads_of_columns
from kernels.megakernel.proof.effects import keeps_newest
from tests.kernels.megakernel.interpreter.words import (
    Floats,
    bf16,
    floats_of,
    one_value,
    soft_capped,
    two_floats,
    value_of,
)

if TYPE_CHECKING:
    from tests.kernels.megakernel.interpreter.sm import StreamingMultiprocessor

LOG2_E = np.float32(1.4426950408889634)
NO_SINK = np.float32(-np.inf)


def splits_of(length: int, split_keys: int, most: int) -> int:
    """The number of splits that a context of `length` keys is divided into."""
    return min(-(-length // split_keys), most)


def _first(sm: "StreamingMultiprocessor", layer: int, b: int) -> int:
    """The first key that a sequence's newest token attends to."""
    return sm.shape.first_key(layer, sm.length(b) - 1)


def _splits(sm: "StreamingMultiprocessor", layer: int, b: int) -> int:
    """The splits of the keys of one sequence."""
    return splits_of(sm.length(b) - _first(sm, layer, b), sm.gpu.split_keys, sm.layout.splits)


def attention(sm: "StreamingMultiprocessor", words: dict[str, int]) -> Generator[bool, None, None]:
    """Some query heads of one key-value head over one split of the keys of one sequence."""
    length, splits = sm.length(words["sequence"]), _splits(sm, words["layer"], words["sequence"])
    if words["split"] >= splits:
        return
    low = _first(sm, words["layer"], words["sequence"])
    share = -(-(length - low) // splits)
    keys = slice(low + words["split"] * share, min(low + (words["split"] + 1) * share, length))
    heads = yield from _heads(sm, words, words["sequence"])
    _attend(sm, words, words["sequence"], keys, *heads)


def attend_to_all(sm: "StreamingMultiprocessor", words: dict[str, int]) -> Generator[bool, None, Floats]:
    """The instruction itself computes the attention's output in its columns, [batch, k_tiles * 16] bf16."""
    shape = sm.shape
    head, heads = heads_of_columns(shape, words["k_tile"], words["k_tiles"])
    x = np.zeros((sm.layout.batch, heads, shape.head_dim), dtype=np.float32)
    for b in range(sm.layout.batch):
        for kv, first, count in groups_of(shape, head, heads):
            part = words | {"kv_head": kv, "head": first, "heads": count}
            taken = yield from _heads(sm, part, b)
            span, keeps = slice(_first(sm, words["layer"], b), sm.length(b)), keeps_newest(shape, words, kv)
            sums, _, total = _sums(sm, words["layer"], b, (kv, first), span, taken, keeps)
            x[b, first - head : first - head + count] = sums / total
            yield True
    skipped = words["k_tile"] * 16 - head * shape.head_dim
    return bf16(x.reshape(sm.layout.batch, -1)[:, skipped : skipped + words["k_tiles"] * 16])


def attended(sm: "StreamingMultiprocessor", words: dict[str, int]) -> Generator[bool, None, Floats]:
    """The attention's output in the instruction's columns, merged from the splits, [batch, k_tiles * 16] bf16."""
    d = sm.shape.head_dim
    columns = np.arange(words["k_tile"] * 16, (words["k_tile"] + words["k_tiles"]) * 16)
    first, last = columns[0] // d, columns[-1] // d + 1
    merged = []
    for b in range(sm.layout.batch):
        taken = yield from _taken(sm, words["layer"], b, slice(first, last), columns)
        (top, total), sums = np.moveaxis(taken[0], -1, 0), taken[1]
        weights = np.exp2(top - top.max(axis=0))
        share = weights / (weights * total).sum(axis=0)
        merged.append((sums * share[:, columns // d - first]).sum(axis=0))
    return bf16(np.stack(merged))


def _taken(
    sm: "StreamingMultiprocessor", layer: int, b: int, heads: slice, columns: NDArray[np.int64]
) -> Generator[bool, None, tuple[Floats, Floats]]:
    """Of all splits of a sequence, the states [splits, heads, 2] and the sums [splits, columns]."""
    d, pairs = sm.shape.head_dim, columns[::2] // 2
    states, sums, flag = [], [], sm.flag(layer)
    for split in range(_splits(sm, layer, b)):
        state = yield from sm.take("attention_state", (b, heads, split), flag)
        states.append(value_of(state).view(np.float32))
        result = yield from sm.take("attention", (b, pairs // (d // 2), split, pairs % (d // 2)), flag)
        sums.append(floats_of(result))
        yield True
    return np.stack(states), np.stack(sums)


def _heads(
    sm: "StreamingMultiprocessor", words: dict[str, int], b: int
) -> Generator[bool, None, tuple[Floats, Floats, Floats]]:
    """The queries [heads, head_dim], scaled, and the newest key and value, in bf16."""
    shape, d = sm.shape, sm.shape.head_dim
    kv, first = words["kv_head"], words["head"]
    rows = [*range(first, first + words["heads"]), shape.heads + kv, shape.heads + shape.kv_heads + kv]
    at = (np.array(rows)[:, None] * d + np.arange(0, d, 2)) // 2
    taken = yield from sm.take("qkv", (slice(None), b, at), sm.flag(words["layer"]))
    x = floats_of(taken).sum(axis=0)
    if shape.qkv_bias:
        x = x + sm.gpu.arrays["bias"][words["layer"]].reshape(-1, d)[rows]
    queries, key, value = x[:-2], x[-2:-1], x[-1]
    if shape.qk_norm:
        weight = sm.gpu.arrays["qk_norm"][words["layer"]].reshape(-1, d)
        of_q, of_k = (weight[rows[:-2]], weight[rows[-2:-1]]) if shape.whole_norm else (weight[:1], weight[1:])
        squares = [(y**2).mean(axis=1, keepdims=True) for y in (queries, key)]
        if shape.whole_norm:
            normed = slice(0, (shape.heads + shape.kv_heads) * d // 2)
            whole = yield from sm.take("qkv", (slice(None), b, normed), sm.flag(words["layer"]))
            both = floats_of(whole).sum(axis=0).reshape(-1, d)
            squares = [(y**2).mean() for y in (both[: shape.heads], both[shape.heads :])]
        queries, key = (
            y * weight / np.sqrt(square + np.float32(shape.norm_eps))
            for y, weight, square in zip((queries, key), (of_q, of_k), squares, strict=True)
        )
    scale = LOG2_E * np.float32(shape.score_scale) if shape.score_scale else LOG2_E / np.sqrt(np.float32(d))
    turned, key = (_rotated(sm, words["layer"], y, b) for y in (queries, key))
    return turned * scale, bf16(key)[0], bf16(value)


def _rotated(sm: "StreamingMultiprocessor", layer: int, x: Floats, b: int) -> Floats:
    """RoPE of [n, head_dim] by the angles of the sequence's position; dimension i is paired with i + head_dim / 2."""
    cosine, sine = sm.gpu.arrays["rope"][sm.length(b) - 1, sm.shape.table(layer)].T
    low, high = np.split(x, 2, axis=1)
    return np.concatenate([low * cosine - high * sine, high * cosine + low * sine], axis=1)


def _attend(
    sm: "StreamingMultiprocessor", words: dict[str, int], b: int, span: slice, q: Floats, key: Floats, value: Floats
) -> None:
    """Publishes one split's unnormalised sums, maxima and weights."""
    kv, flag = words["kv_head"], sm.flag(words["layer"])
    keeps = words["head"] == kv * (sm.shape.heads // sm.shape.kv_heads)
    sums, top, total = _sums(sm, words["layer"], b, (kv, words["head"]), span, (q, key, value), keeps)
    at = b, slice(words["head"], words["head"] + words["heads"]), words["split"]
    sm.store("attention", at, two_floats(sums, flag))
    sm.store("attention_state", at, one_value(np.concatenate([top, total], axis=1).view(np.uint32), flag))


def _sums(
    sm: "StreamingMultiprocessor",
    layer: int,
    b: int,
    at: tuple[int, int],
    span: slice,
    taken: tuple[Floats, Floats, Floats],
    keeps: bool,
) -> tuple[Floats, Floats, Floats]:
    """Queries [heads, head_dim] over keys `span`: sums of values, the largest scores (base 2), sums of weights. `at`:
    the key-value head and the first query head. A head's sink joins the first split.
    """
    (kv, head), (q, key, value) = at, taken
    newest = sm.length(b) - 1
    keys, values = sm.gpu.keys[layer, b, span, kv].copy(), sm.gpu.values[layer, b, span, kv].copy()
    if span.stop == newest + 1:
        keys[-1], values[-1] = key, value
        if keeps:
            sm.unpublished.append(((layer, b, newest, kv), key, value))
    scores = soft_capped(q @ keys.T, sm.shape.score_cap * LOG2_E)
    first = span.start == _first(sm, layer, b)
    sinks = sm.gpu.arrays["sinks"][layer, head : head + len(q), None] * LOG2_E if sm.shape.sinks and first else NO_SINK
    top = np.maximum(scores.max(axis=1, keepdims=True), sinks)
    weights = np.exp2(scores - top)
    return bf16(weights) @ values, top, weights.sum(axis=1, keepdims=True) + np.exp2(sinks - top)
