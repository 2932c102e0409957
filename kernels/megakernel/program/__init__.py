"""The megakernel's program: what each SM does for one token, as data. Imports without torch.

Every SM runs its own list of instructions once per token. Instructions exchange values in flagged words: a reader
polls until each word that it needs carries the flag of this layer of this token. Products work on *units*: 16 rows of
a matrix times `k_tiles` tiles of 16 columns, streamed in exactly this order.
"""

from dataclasses import dataclass, field

import numpy as np

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
    WORDS,
)
from kernels.megakernel.program.layout import (
    Layout,
    attention_work,
    deal_tiles,
    fit_layout,
    head_tiles,
    partition_tiles,
    products,
)
from kernels.megakernel.program.shape import ModelShape


@dataclass(frozen=True)
class WeightSection:
    """Weights one instruction streams: row tiles [tile, tile + units), column tiles [k_tile, k_tile + k_tiles)."""

    matrix: int
    layer: int
    tile: int
    units: int
    k_tile: int
    k_tiles: int


@dataclass
class Program:
    """`instructions[sm]` int32 [n, 16], the last one END; `sections[sm]` in stream order. `shape` is a GPU's shard of
    the model, and `rank` the one that runs this program.
    """

    shape: ModelShape
    layout: Layout
    instructions: list[np.ndarray] = field(default_factory=list)
    sections: list[list[WeightSection]] = field(default_factory=list)
    rank: int = 0

    @property
    def starts(self) -> np.ndarray:
        """Index of each SM's first instruction in the concatenated list, int32 [sms]."""
        lengths = [len(instruction) for instruction in self.instructions]
        return np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int32)

    def in_stream(self, op: int) -> bool:
        """Whether a product's weights lie in the streams of the SMs; those of experts are read where they lie."""
        return not self.shape.experts or op not in (GATE_UP, DOWN)

    @property
    def expert_bytes(self) -> int:
        """Bytes of all experts as the launch reads them; of a dense model 0."""
        return int(self.layout.expert_form.weight_bytes * (self.shape.experts_bytes // 2))

    def streams_as(self, other: "Program") -> bool:
        """Whether its streams hold the same bytes in the same order as those of another program of the model."""
        forms = [(layout.form, layout.head_form) for layout in (self.layout, other.layout)]
        return forms[0] == forms[1] and self.sections == other.sections

    def stream_bytes(self) -> np.ndarray:
        """Bytes of weights, scales included, that each SM reads per token, int64 [sms]; those of experts left out."""
        return np.array([sum(map(self.section_bytes, sections)) for sections in self.sections])

    def section_bytes(self, section: WeightSection) -> int:
        return section.units * self.layout.form_of(section.matrix).unit_bytes(section.k_tiles)


def build_program(shape: ModelShape, layout: Layout, rank: int = 0) -> Program:
    """The program of one token for every SM of a rank. Ranks differ in their partials and shards of the vocabulary.

    Products that read the residual (QKV, GATE_UP, HEAD) are on every SM, with 0 units where it has no rows: each SM
    keeps its own copy of the residual and must read every partial before it is written again. When it is sliced, an ADD
    comes before each of them instead, on the SMs that have columns of it. The program's layout is `layout` fitted to
    the shape.

    In a mixture ROUTER, on every SM, reads the residual after attention. GATE_UP of the first group, on every SM too,
    finds the experts that the router chose: the groups' experts are known then, and their weights are in no section.
    """
    layout = fit_layout(shape, layout)
    program = Program(shape, layout, rank=rank)
    rows: list[list[dict[str, int]]] = [[] for _ in range(layout.sms)]
    program.sections = [[] for _ in range(layout.sms)]
    cut = products(shape, layout)
    rotation = 0

    def product(op: int, layer: int, on_every_sm: bool, group: int = 0) -> None:
        nonlocal rotation
        tiles, columns, parts = cut[op]
        rank_tiles = head_tiles(shape, layout, rank) if op == HEAD else range(tiles)
        tiles, before = (
            len(rank_tiles),
            (group * layout.tensor_parallel_size + rank) * parts if op in (OUT, DOWN) else 0,
        )
        together = 2 if layout.pairs and op == OUT else 1
        shared = partition_tiles(tiles, columns, parts, layout.sms, rotation, together)
        for sm, (tile, units, k_tile, k_tiles, part) in enumerate(shared):
            first = rank_tiles.start + tile
            if units and program.in_stream(op):
                program.sections[sm].append(WeightSection(op, layer, first, units, k_tile, k_tiles))
            if units or on_every_sm:
                words = {"op": op, "tile": first, "units": units, "k_tile": k_tile, "k_tiles": k_tiles}
                rows[sm].append(words | {"partial": before + part, "layer": layer, "group": group})
        rotation += max(1, layout.sms - tiles * parts % layout.sms)

    def gate_up_of_group(layer: int, group: int) -> None:
        nonlocal rotation
        tiles, columns, _ = cut[GATE_UP]
        for sm, (tile, units) in enumerate(deal_tiles(tiles, layout.sms, rotation)):
            words = {"op": GATE_UP, "tile": tile, "units": units, "k_tiles": columns, "layer": layer, "group": group}
            rows[sm].append(words)
        rotation += layout.sms - tiles % layout.sms

    def experts(layer: int) -> None:
        product(ROUTER, layer, on_every_sm=True)
        for group in range(layout.expert_groups):
            gate_up_of_group(layer, group)
        for group in range(layout.expert_groups):
            product(DOWN, layer, on_every_sm=False, group=group)

    def add(layer: int, after_attention: bool) -> None:
        for sm, (tile, tiles, *_) in enumerate(partition_tiles(shape.hidden // 16, 1, 1, layout.sms, 0)):
            if layout.sliced and tiles:
                words = {"op": ADD, "layer": layer, "k_tile": tile, "k_tiles": tiles, "partial": int(after_attention)}
                rows[sm].append(words)

    for layer in range(shape.layers):
        add(layer, after_attention=False)
        product(QKV, layer, on_every_sm=not layout.sliced)
        for i, words in enumerate(attention_work(shape, layout)):
            rows[i % layout.sms].append({"op": ATTENTION, "layer": layer} | words)
        product(OUT, layer, on_every_sm=False)
        add(layer, after_attention=True)
        if shape.experts:
            experts(layer)
            continue
        product(GATE_UP, layer, on_every_sm=not layout.sliced)
        product(DOWN, layer, on_every_sm=False)
    add(shape.layers, after_attention=False)
    product(HEAD, shape.layers, on_every_sm=True)
    for listed in rows:
        listed.append({"op": END, "layer": shape.layers})
        table = np.zeros((len(listed), WORDS), dtype=np.int32)
        table[:, : len(FIELDS)] = [[words.get(name, 0) for name in FIELDS] for words in listed]
        table[:, FIELDS.index("index")] = np.arange(len(listed))
        program.instructions.append(table)
    return program
