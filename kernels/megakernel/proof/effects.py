"""What every instruction reads and writes; the validator relies on these declarations. Imports without torch.

Values lie in *blocks*, the smallest pieces that an instruction reads or writes: 16 rows of a product, 16 dimensions of
one head and split, 8 gated values, one SM's candidate. A block of attention's input or output belongs to one sequence.
Any other block stands for the words of every sequence of the batch: an instruction reads all of them before its readers
may go on, so they need no separate blocks.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from kernels.megakernel.program.exchange import COPIED
from kernels.megakernel.program.instructions import (
    ADD,
    ATTENTION,
    DOWN,
    END,
    FIELDS,
    GATE_UP,
    HEAD,
    OUT,
    QKV,
    ROUTER,
)
from kernels.megakernel.program.layout import Layout, groups_of, heads_of_columns
from kernels.megakernel.program.shape import ModelShape

COLUMN = {name: i for i, name in enumerate(FIELDS)}
TILE = 16
GATED_BLOCK = 8


@dataclass(frozen=True)
class Access:
    """`repeat` runs of `count` blocks in `buffer`, which layer `layer` of this token writes. Each run begins `stride`
    blocks after the one before it.

    `always` is False for splits of the keys after the first, which only a longer context uses, and for groups of
    experts after the first, which are at work when the sequences of a batch have chosen enough different ones.
    """

    buffer: str
    layer: int
    first: int
    count: int
    repeat: int = 1
    stride: int = 0
    always: bool = True

    @property
    def blocks(self) -> np.ndarray:
        """Indexes of the blocks, int64."""
        return _blocks(self.first, self.count, self.repeat, self.stride)


@lru_cache(maxsize=1 << 16)
def _blocks(first: int, count: int, repeat: int, stride: int) -> np.ndarray:
    return (first + np.arange(repeat)[:, None] * stride + np.arange(count)[None, :]).ravel()


@dataclass(frozen=True)
class Effects:
    """What one instruction reads, writes and needs.

    `residual` is the version of the residual that the SM must hold, its copy or slice; -1 if the instruction uses none.
    `appends` are the places (layer, key-value head, sequence) in the KV cache whose newest rows it may write; `meets`
    are those whose earlier rows it reads. `chunks` is how many of the ring's chunks it takes. `exchanges` are blocks of
    which each SM writes its own and all SMs read all, in rounds of one instruction; only a sampled token uses them.
    """

    reads: tuple[Access, ...] = ()
    writes: tuple[Access, ...] = ()
    exchanges: tuple[Access, ...] = ()
    residual: int = -1
    appends: tuple[tuple[int, int, int], ...] = ()
    meets: tuple[tuple[int, int, int], ...] = ()
    chunks: int = 0
    always: bool = True


def buffer_sizes(shape: ModelShape, layout: Layout) -> dict[str, int]:
    """Blocks in each buffer of one rank."""
    hidden = shape.hidden // TILE
    return {
        "qkv": layout.copies * layout.batch * (shape.qkv_rows // TILE),
        "attention": layout.splits * layout.batch * shape.heads * (shape.head_dim // TILE),
        "attention_state": layout.splits * layout.batch * shape.heads,
        "out_partials": layout.copies * layout.out_partials * hidden,
        "down_partials": layout.copies * 2 * layout.down_partials * hidden,
        "gated": layout.copies * layout.expert_groups * shape.intermediate // GATED_BLOCK,
        "router": -(-shape.experts // TILE),
        "normed": 2 * shape.hidden // GATED_BLOCK if layout.sliced else 0,
        "candidates": layout.all_sms,
        "counts": 2 * layout.all_sms,
    }


def effects(shape: ModelShape, layout: Layout, sm: int, words: dict[str, int]) -> Effects:
    """The effects of one instruction, given by its FIELDS, on SM `sm` of all ranks' SMs: it writes every copy and
    reads its own. Accesses are to its rank's memory; what it writes to EXCHANGED it writes into every rank's.
    """
    one = layout if layout.copies == 1 else replace(layout, copies=1)
    declared = _OF[words["op"]](shape, one, sm, words)
    if one is layout:
        return declared
    length = buffer_sizes(shape, one)

    def moved(access: Access, copy: int) -> Access:
        return replace(access, first=access.first + copy * length[access.buffer]) if access.buffer in COPIED else access

    reads = tuple(moved(read, sm % layout.copies) for read in declared.reads)
    copies = [range(layout.copies if write.buffer in COPIED else 1) for write in declared.writes]
    writes = tuple(moved(words, i) for words, all_of in zip(declared.writes, copies, strict=True) for i in all_of)
    return replace(declared, reads=reads, writes=writes)


def _chunks(layout: Layout, words: dict[str, int]) -> int:
    return words["units"] * layout.form_of(words["op"]).chunks(words["k_tiles"])


def _partials(shape: ModelShape, layout: Layout, buffer: str, layer: int) -> Access:
    """All blocks that one layer writes in the buffer; even and odd layers use different halves of `down_partials`."""
    count = buffer_sizes(shape, layout)[buffer]
    if buffer != "down_partials":
        return Access(buffer, layer, 0, count)
    return Access(buffer, layer, layer % 2 * (count // 2), count // 2)


def _rows(buffer: str, words: dict[str, int], tiles: int) -> tuple[Access, ...]:
    """The blocks that a product writes: `units` row tiles of its partial, or none."""
    first = words["partial"] * tiles + words["tile"]
    return (Access(buffer, words["layer"], first, words["units"]),) if words["units"] else ()


def _slice(shape: ModelShape, layer: int, after_attention: bool, tile: int, tiles: int) -> Access:
    """Columns of the normed residual; after attention they lie in the second half of the buffer."""
    per_tile, first = TILE // GATED_BLOCK, after_attention * (shape.hidden // GATED_BLOCK)
    return Access("normed", layer, first + tile * per_tile, tiles * per_tile)


def _input(shape: ModelShape, layout: Layout, layer: int, after_attention: bool) -> tuple[tuple[Access, ...], int]:
    """The blocks that a product of the residual reads, and the version of the residual that it makes."""
    if layout.sliced:
        return (_slice(shape, layer, after_attention, 0, shape.hidden // TILE),), -1
    if after_attention:
        return (_partials(shape, layout, "out_partials", layer),), 2 * layer + 1
    return (_partials(shape, layout, "down_partials", layer - 1),) if layer else (), 2 * layer


def _add(shape: ModelShape, layout: Layout, sm: int, words: dict[str, int]) -> Effects:
    layer, after_attention, hidden = words["layer"], bool(words["partial"]), shape.hidden // TILE
    tile, tiles = words["k_tile"], words["k_tiles"]
    reads: tuple[Access, ...] = ()
    if after_attention:
        reads = (Access("out_partials", layer, tile, tiles, layout.out_partials, hidden),)
    elif layer:
        half = (layer - 1) % 2 * layout.down_partials * hidden
        reads = (Access("down_partials", layer - 1, half + tile, tiles, layout.down_partials, hidden),)
    writes = (_slice(shape, layer, after_attention, tile, tiles),)
    return Effects(reads, writes, residual=2 * layer + after_attention)


def _qkv(shape: ModelShape, layout: Layout, sm: int, words: dict[str, int]) -> Effects:
    layer = words["layer"]
    reads, residual = _input(shape, layout, layer, after_attention=False)
    tiles = shape.qkv_rows // TILE
    writes = tuple(replace(row, repeat=layout.batch, stride=tiles) for row in _rows("qkv", words, tiles))
    return Effects(reads, writes, residual=residual, chunks=_chunks(layout, words))


def _heads(shape: ModelShape, layer: int, groups: list[tuple[int, int, int]], sequences: range) -> tuple[Access, ...]:
    """Rows of queries, newest keys and values that heads of these sequences need; all where norms span heads."""
    each, tiles, (first, head, _) = shape.head_dim // TILE, shape.qkv_rows // TILE, groups[0]
    kvs = shape.heads + first, len(groups)
    queries = (head, sum(n for *_, n in groups)), kvs
    rows = (*(((0, shape.heads + shape.kv_heads),) if shape.whole_norm else queries), (kvs[0] + shape.kv_heads, kvs[1]))
    begin, count = sequences.start * tiles, len(sequences)
    return tuple(Access("qkv", layer, begin + at * each, n * each, count, tiles) for at, n in rows)


def _attention(shape: ModelShape, layout: Layout, sm: int, words: dict[str, int]) -> Effects:
    each, layer = shape.head_dim // TILE, words["layer"]
    kv, head, heads, split = (words[name] for name in ("kv_head", "head", "heads", "split"))
    sequence = words["sequence"]
    at = (split * layout.batch + sequence) * shape.heads + head
    always = split == 0
    writes = (
        Access("attention", layer, at * each, heads * each, always=always),
        Access("attention_state", layer, at, heads, always=always),
    )
    first_of_group = head == kv * (shape.heads // shape.kv_heads)
    slot = ((layer, kv, sequence),)
    reads = _heads(shape, layer, [(kv, head, heads)], range(sequence, sequence + 1))
    return Effects(reads, writes, appends=slot if first_of_group else (), meets=slot, always=always)


def _out(shape: ModelShape, layout: Layout, sm: int, words: dict[str, int]) -> Effects:
    layer, first, count = words["layer"], words["k_tile"], words["k_tiles"]
    writes, chunks = _rows("out_partials", words, shape.hidden // TILE), _chunks(layout, words)
    head, heads = heads_of_columns(shape, first, count)
    batch = layout.batch
    if not layout.splits:
        groups = groups_of(shape, head, heads)
        meets = tuple((layer, kv, sequence) for kv, *_ in groups for sequence in range(batch))
        appends = tuple(slot for slot in meets if keeps_newest(shape, words, slot[1]))
        reads = _heads(shape, layer, groups, range(batch))
        return Effects(reads, writes, appends=appends, meets=meets, chunks=chunks)
    each = shape.head_dim // TILE  # in a pair each reads half of the splits, and waits for the other
    inputs = (("attention", first, count, shape.heads * each), ("attention_state", head, heads, shape.heads))
    parts = [Access(buffer, layer, at, n, batch, stride) for buffer, at, n, stride in inputs]
    if layout.splits > 1:
        parts += [
            Access(buffer, layer, at + batch * stride, n, (layout.splits - 1) * batch, stride, always=False)
            for buffer, at, n, stride in inputs
        ]
    return Effects(tuple(parts), writes, chunks=chunks)


def keeps_newest(shape: ModelShape, words: dict[str, int], kv: int) -> bool:
    """Whether this OUT writes the head's newest key and value: the one with its first row tile and column."""
    column = kv * (shape.heads // shape.kv_heads) * (shape.head_dim // TILE)
    return words["tile"] == 0 and column >= words["k_tile"]


def _router(shape: ModelShape, layout: Layout, sm: int, words: dict[str, int]) -> Effects:
    reads, residual = _input(shape, layout, words["layer"], after_attention=True)
    writes = _rows("router", words | {"partial": 0}, 0)
    return Effects(reads, writes, residual=residual, chunks=_chunks(layout, words))


def _experts_gate_up(shape: ModelShape, layout: Layout, words: dict[str, int]) -> Effects:
    """Of any experts: their weights are no words, and where the gated values go depends on their group alone."""
    first = words["group"] * (shape.intermediate // GATED_BLOCK) + words["tile"]
    always = words["group"] == 0
    writes = (Access("gated", words["layer"], first, 1, words["units"], layout.sms, always=always),)
    reads = (_partials(shape, layout, "router", words["layer"]),) if always else ()
    return Effects(reads, writes if words["units"] else (), chunks=_chunks(layout, words), always=always)


def _gate_up(shape: ModelShape, layout: Layout, sm: int, words: dict[str, int]) -> Effects:
    if shape.experts:
        return _experts_gate_up(shape, layout, words)
    reads, residual = _input(shape, layout, words["layer"], after_attention=True)
    writes = _rows("gated", words | {"partial": 0}, 0)
    return Effects(reads, writes, residual=residual, chunks=_chunks(layout, words))


def _down(shape: ModelShape, layout: Layout, sm: int, words: dict[str, int]) -> Effects:
    per_tile, always = TILE // GATED_BLOCK, words["group"] == 0
    first = words["group"] * (shape.intermediate // TILE) + words["k_tile"]
    reads = (Access("gated", words["layer"], first * per_tile, words["k_tiles"] * per_tile, always=always),)
    partial = words["layer"] % 2 * layout.down_partials + words["partial"]
    rows = _rows("down_partials", words | {"partial": partial}, shape.hidden // TILE)
    writes = tuple(replace(row, always=always) for row in rows)
    return Effects(reads, writes, chunks=_chunks(layout, words), always=always)


def _head(shape: ModelShape, layout: Layout, sm: int, words: dict[str, int]) -> Effects:
    reads, residual = _input(shape, layout, words["layer"], after_attention=False)
    writes = (Access("candidates", words["layer"], sm, 1),)
    return Effects(reads, writes, residual=residual, chunks=_chunks(layout, words))


def _end(shape: ModelShape, layout: Layout, sm: int, words: dict[str, int]) -> Effects:
    reads = (_partials(shape, layout, "candidates", words["layer"]),)
    exchanges = (_partials(shape, layout, "counts", words["layer"]),)
    return Effects(reads, exchanges=exchanges, residual=-1 if layout.sliced else 2 * words["layer"] + 1)


_OF = {
    QKV: _qkv, ATTENTION: _attention, OUT: _out, GATE_UP: _gate_up, DOWN: _down, HEAD: _head, END: _end, ADD: _add,
    ROUTER: _router,
}  # fmt: skip
