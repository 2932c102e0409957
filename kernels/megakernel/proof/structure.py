"""Checks of a program that need no replay: fields in range, weights and heads covered, streams in order."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kernels.megakernel.program import Program, WeightSection
from kernels.megakernel.program.instructions import (
    ADD,
    ATTENTION,
    DOWN,
    END,
    FIELDS,
    GATE_UP,
    HEAD,
    OP_NAMES,
    OUT,
    QKV,
    ROUTER,
    WORDS,
)
from kernels.megakernel.program.layout import (
    MAX_GROUPS,
    MAX_HEADS,
    Layout,
    groups_of,
    head_tiles,
    heads_of_columns,
    products,
)
from kernels.megakernel.program.shape import MAX_BATCH, ModelShape
from kernels.megakernel.program.weights import CHUNK_BLOCKS, PRECISIONS, SHORT_CHUNK_BLOCKS
from kernels.megakernel.proof.effects import COLUMN, effects

WHOLE_INPUT = (QKV, GATE_UP, HEAD, ROUTER)
"""Products of the residual: the kernel multiplies their input from its first column on."""


@dataclass(frozen=True)
class ProgramProblem:
    """Why a program must not run. `kind` is one of KINDS; `sm` and `index` are -1 when it concerns several SMs, and
    `rank` is -1 where there is one GPU, or it concerns several.
    """

    kind: str
    sm: int
    index: int
    sentence: str
    rank: int = -1

    def __str__(self) -> str:
        where = f"SM {self.sm}, instruction {self.index}: " if self.sm >= 0 else ""
        where = f"GPU {self.rank}, {where}" if self.rank >= 0 else where
        return f"{self.kind}: {where}{self.sentence}"


KINDS = (
    "bounds", "stream", "coverage", "residual", "deadlock", "duplicate", "overwrite", "unread", "cache", "router",
)  # fmt: skip


def instruction_rows(table: np.ndarray) -> list[dict[str, int]]:
    """An SM's instructions by FIELDS."""
    return [dict(zip(FIELDS, row, strict=False)) for row in table.tolist()]


def instruction_name(words: dict[str, int]) -> str:
    """An instruction in words, as in "down of layer 3"."""
    op = words["op"]
    return f"{OP_NAMES[op]} of layer {words['layer']}" if 0 <= op < len(OP_NAMES) else f"op {op}"


def structure(program: Program) -> list[ProgramProblem]:
    """Every problem that these checks find. If fields are out of range, the later checks are skipped."""
    problems = list(_bounds(program))
    if problems:
        return problems
    rows = [instruction_rows(table) for table in program.instructions]
    result: list[ProgramProblem] = []
    for sm, listed in enumerate(rows):
        result += _stream(program, sm, listed)
        result += _residual(program, sm, listed)
        result += _routes(program, sm, listed)
    result += [*_products(program, rows), *_attention(program, rows)]
    return [*result, *_slices(program, rows), *_pairs(program, rows)]


def _bounds(program: Program) -> Iterator[ProgramProblem]:
    layout = program.layout
    if layout.weights not in PRECISIONS:
        yield ProgramProblem("bounds", -1, -1, f"weights {layout.weights!r} are not one of {', '.join(PRECISIONS)}")
        return
    short = layout.chunk_blocks == SHORT_CHUNK_BLOCKS and layout.form.bits > 4 and not layout.splits
    if not short and layout.chunk_blocks != CHUNK_BLOCKS:
        sentence = f"no chunks of {layout.chunk_blocks} blocks in {layout.weights} with {layout.splits} splits"
        yield ProgramProblem("bounds", -1, -1, sentence)
        return
    if not 1 <= layout.batch <= MAX_BATCH:
        yield ProgramProblem("bounds", -1, -1, f"batch {layout.batch} is not 1 to {MAX_BATCH}")
        return
    if not 0 <= program.rank < layout.tensor_parallel_size:
        yield ProgramProblem("bounds", -1, -1, f"rank {program.rank} is not one of {layout.tensor_parallel_size}")
        return
    if len(program.instructions) != layout.sms or len(program.sections) != layout.sms:
        yield ProgramProblem(
            "bounds", -1, -1, f"{len(program.instructions)} lists of instructions for {layout.sms} SMs"
        )
        return
    cut = products(program.shape, layout)
    for sm, table in enumerate(program.instructions):
        if table.dtype != np.int32 or table.ndim != 2 or table.shape[1] != WORDS or not len(table):
            yield ProgramProblem(
                "bounds", sm, -1, f"instructions are {table.dtype} {table.shape}, not int32 [n, {WORDS}]"
            )
            continue
        if table[-1, COLUMN["op"]] != END or (table[:-1, COLUMN["op"]] == END).any():
            yield ProgramProblem("bounds", sm, len(table) - 1, "END must be the last instruction and no other")
            continue
        for index, words in enumerate(instruction_rows(table)):
            for sentence in _fields(program, cut, index, words):
                yield ProgramProblem("bounds", sm, index, f"{instruction_name(words)}: {sentence}")


def _fields(program: Program, cut: dict[int, tuple[int, int, int]], index: int, words: dict[str, int]) -> Iterator[str]:
    shape, layout = program.shape, program.layout
    op, layer = words["op"], words["layer"]
    if not END <= op <= (ROUTER if shape.experts else ADD):
        yield "there is no such operation"
        return
    if words["index"] != index:
        yield f"index is {words['index']}"
    last = op in (HEAD, END) or (op == ADD and not words["partial"] and layer == shape.layers)
    if (layer != shape.layers) if last else not 0 <= layer < shape.layers:
        yield f"layer must be {shape.layers if last else f'0 to {shape.layers - 1}'}"
    if op in (ATTENTION, END, ADD) and words["units"]:
        yield f"it has {words['units']} units, which the producer would stream and no consumer take"
    if op == ATTENTION:
        yield from _head_fields(shape, layout, words)
    elif op == ADD:
        yield from _slice_fields(shape, layout, words)
    elif op != END:
        first = (words["group"] * layout.tensor_parallel_size + program.rank) * cut[op][2] if op in (OUT, DOWN) else 0
        yield from _product_fields(op, cut[op], words, first, layout.sms if shape.experts and op == GATE_UP else 1)
        if not 0 <= words["group"] < (layout.expert_groups if op in (GATE_UP, DOWN) else 1):
            yield f"group {words['group']} of {layout.expert_groups}"
        if words["units"] and words["k_tile"] % layout.form_of(op).together:
            yield f"it begins at column tile {words['k_tile']}, within codes that share their scales"
    if op == OUT and not layout.splits:
        yield from _attending_fields(shape, words)


def _slice_fields(shape: ModelShape, layout: Layout, words: dict[str, int]) -> Iterator[str]:
    low, count, hidden = words["k_tile"], words["k_tiles"], shape.hidden // 16
    if low < 0 or count < 1 or low + count > hidden:
        yield f"column tiles {low} to {low + count} of {hidden}"
    if words["partial"] not in (0, 1):
        yield f"partial {words['partial']} is neither 0, before attention, nor 1, after it"
    if not layout.sliced:
        yield "the residual is not cut into slices"


def _product_fields(
    op: int, cut: tuple[int, int, int], words: dict[str, int], first: int, stride: int
) -> Iterator[str]:
    """`first` is the first partial of the rank or group; row tiles are `stride` from each other."""
    tiles, columns, parts = cut
    low, units, k_low, k_count = (words[name] for name in ("tile", "units", "k_tile", "k_tiles"))
    end = low + (units - 1) * stride + 1 if units else low
    if units < 0 or low < 0 or end > tiles:
        yield f"row tiles {low} to {end} of {tiles}"
    if (k_count < 1 and (units or op == OUT)) or k_count < 0 or k_low < 0 or k_low + k_count > columns:
        yield f"column tiles {k_low} to {k_low + k_count} of {columns}"
    if not first <= words["partial"] < first + parts:
        yield f"partial {words['partial']} of {first} to {first + parts - 1}"
    if op in WHOLE_INPUT and units and k_low:
        yield f"it begins at column tile {k_low}, but its input begins at 0"


def _attending_fields(shape: ModelShape, words: dict[str, int]) -> Iterator[str]:
    attended = groups_of(shape, *heads_of_columns(shape, words["k_tile"], words["k_tiles"]))
    max_heads = max((heads for *_, heads in attended), default=0)
    if len(attended) > MAX_GROUPS or max_heads > MAX_HEADS:
        yield f"it attends to {len(attended)} key-value heads with up to {max_heads} query heads each"


def _head_fields(shape: ModelShape, layout: Layout, words: dict[str, int]) -> Iterator[str]:
    kv, head, heads, split = (words[name] for name in ("kv_head", "head", "heads", "split"))
    group = shape.heads // shape.kv_heads
    if not 0 <= kv < shape.kv_heads:
        yield f"key-value head {kv} of {shape.kv_heads}"
    if not 1 <= heads <= MAX_HEADS or head < kv * group or head + heads > (kv + 1) * group:
        yield f"query heads {head} to {head + heads} are not up to {MAX_HEADS} of key-value head {kv}"
    if not 0 <= split < layout.splits:
        yield f"split {split} of {layout.splits}"
    if not 0 <= words["sequence"] < layout.batch:
        yield f"sequence {words['sequence']} of {layout.batch}"


def _stream(program: Program, sm: int, rows: list[dict[str, int]]) -> Iterator[ProgramProblem]:
    """The packed weights lie in the order in which the instructions take them, and none is left over."""
    expected = [
        (index, WeightSection(w["op"], w["layer"], w["tile"], w["units"], w["k_tile"], w["k_tiles"]))
        for index, w in enumerate(rows)
        if w["units"] and program.in_stream(w["op"])
    ]
    packed = program.sections[sm]
    for (index, section), packed_section in zip(expected, packed, strict=False):
        if section != packed_section:
            yield ProgramProblem(
                "stream", sm, index, f"it takes {section}, but {packed_section} is what the ring brings"
            )
            return
    if len(expected) != len(packed):
        yield ProgramProblem("stream", sm, -1, f"{len(packed)} sections are packed for {len(expected)} instructions")


def _residual(program: Program, sm: int, rows: list[dict[str, int]]) -> Iterator[ProgramProblem]:
    """The SM's copy or slice of the residual is made new, added to and used in the order of the model, each once."""
    due, sliced = 0, program.layout.sliced
    for index, words in enumerate(rows):
        version = effects(program.shape, program.layout, program.rank * program.layout.sms + sm, words).residual
        if version < 0:
            continue
        if version != due:
            yield ProgramProblem(
                "residual", sm, index, f"{instruction_name(words)} wants addition {version} of the residual, not {due}"
            )
            return
        due += 1
    expected = 2 * program.shape.layers + 2 - sliced
    if due != expected and not (sliced and due == 0):
        yield ProgramProblem("residual", sm, -1, f"the residual is added to {due} times, not {expected}")


def _routes(program: Program, sm: int, rows: list[dict[str, int]]) -> Iterator[ProgramProblem]:
    """In each layer of a mixture the SM's ROUTER brings the input of its GATE_UPs, which follow at once, and the first
    of them finds the experts before any weights of theirs are awaited.
    """
    if not program.shape.experts:
        return
    ops = ROUTER, GATE_UP, DOWN
    groups = range(program.layout.expert_groups)
    for layer in range(program.shape.layers):
        rows_of_ops = [i for i, words in enumerate(rows) if words["layer"] == layer and words["op"] in ops]
        listed = [(rows[i]["op"], rows[i]["group"]) for i in rows_of_ops]
        expected = [(ROUTER, 0), *((GATE_UP, group) for group in groups)]
        first, together = listed[: len(expected)], rows_of_ops[: len(expected)]
        units = sum(rows[i]["units"] for i in together[1:2])
        if first != expected or together != list(range(together[0], together[0] + len(expected))) or not units:
            sentence = f"layer {layer}: the router and the gate and up of each group do not follow each other"
            yield ProgramProblem("router", sm, -1, sentence)
        elif any(op != DOWN for op, _ in listed[len(expected) :]):
            yield ProgramProblem("router", sm, -1, f"layer {layer}: a second router, or gate and up")


def _products(program: Program, rows: list[list[dict[str, int]]]) -> Iterator[ProgramProblem]:
    """Every 16 x 16 tile of the rank's shard of every matrix is multiplied exactly once, and no other."""
    shape = program.shape
    tiles_of_rank = head_tiles(shape, program.layout, program.rank)
    parts: dict[tuple[int, int, int], list[dict[str, int]]] = {}
    for listed in rows:
        for words in listed:
            if words["units"]:
                parts.setdefault((words["op"], words["layer"], words["group"]), []).append(words)
    layers = range(shape.layers)
    for op, (tiles, columns, _) in products(shape, program.layout).items():
        groups = range(program.layout.expert_groups if op in (GATE_UP, DOWN) else 1)
        stride = program.layout.sms if shape.experts and op == GATE_UP else 1
        for layer, group in itertools.product((shape.layers,) if op == HEAD else layers, groups):
            used = np.zeros((tiles, columns), dtype=np.int16)
            for w in parts.get((op, layer, group), []):
                own_tiles = slice(w["tile"], w["tile"] + w["units"] * stride, stride)
                used[own_tiles, w["k_tile"] : w["k_tile"] + w["k_tiles"]] += 1
            expected = np.ones(tiles, dtype=np.int16)
            if op == HEAD:
                expected[: tiles_of_rank.start] = expected[tiles_of_rank.stop :] = 0
            if (used != expected[:, None]).any():
                row, column = np.argwhere(used != expected[:, None])[0].tolist()
                what = f"{OP_NAMES[op]} of layer {layer}, tile at row {row * 16}, column {column * 16}"
                what += f" of group {group}" * (len(groups) > 1)
                yield ProgramProblem("coverage", -1, -1, f"{what}, is multiplied {used[row, column]} times")


def _attention(program: Program, rows: list[list[dict[str, int]]]) -> Iterator[ProgramProblem]:
    """Every query head of every sequence meets every split of the keys exactly once in every layer."""
    shape, layout = program.shape, program.layout
    met = np.zeros((shape.layers, layout.splits, layout.batch, shape.heads), dtype=np.int16)
    for words in (w for listed in rows for w in listed if w["op"] == ATTENTION):
        met[words["layer"], words["split"], words["sequence"], words["head"] : words["head"] + words["heads"]] += 1
    for layer, split, sequence, head in np.argwhere(met != 1)[:4].tolist():
        times = met[layer, split, sequence, head]
        what = f"layer {layer}, sequence {sequence}: head {head} meets split {split} of the keys {times} times"
        yield ProgramProblem("coverage", -1, -1, what)


def _slices(program: Program, rows: list[list[dict[str, int]]]) -> Iterator[ProgramProblem]:
    """Each column of a sliced residual belongs to one SM, which always adds to the same columns."""
    if not program.layout.sliced:
        return
    kept = np.zeros(program.shape.hidden // 16, dtype=np.int16)
    for sm, listed in enumerate(rows):
        slices = {(words["k_tile"], words["k_tiles"]) for words in listed if words["op"] == ADD}
        if len(slices) > 1:
            yield ProgramProblem(
                "residual", sm, -1, f"it keeps one slice of the residual, but adds to {sorted(slices)}"
            )
        for low, count in slices:
            kept[low : low + count] += 1
    if (kept != 1).any():
        tile = int(np.flatnonzero(kept != 1)[0])
        yield ProgramProblem("coverage", -1, -1, f"columns {tile * 16} of the residual are kept by {kept[tile]} SMs")


def _pairs(program: Program, rows: list[list[dict[str, int]]]) -> Iterator[ProgramProblem]:
    """SMs that share keys attend once in every layer, with the same columns of OUT as the other.

    So neither waits for ever for the other's sums: an SM sends its own before it waits, and the parity of the barrier,
    which counts layers, tells which sums have come.
    """
    if not program.layout.pairs:
        return
    if program.layout.sms % 2:
        yield ProgramProblem("bounds", -1, -1, f"{program.layout.sms} SMs are not in pairs")
        return
    attended = [[(w["layer"], w["k_tile"], w["k_tiles"]) for w in listed if w["op"] == OUT] for listed in rows]
    layers = list(range(program.shape.layers))
    for sm, spans in enumerate(attended):
        if [layer for layer, *_ in spans] != layers:
            yield ProgramProblem("deadlock", sm, -1, "it shares keys, but does not attend once in each layer")
    for sm in range(0, program.layout.sms, 2):
        if attended[sm] != attended[sm + 1]:
            yield ProgramProblem(
                "deadlock", sm, -1, f"it shares keys with SM {sm + 1}, which attends in other layers or columns"
            )
