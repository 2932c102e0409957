"""What a debug build tells of a real launch, held against what is declared."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.megakernel.program import Program
from kernels.megakernel.program.exchange import word_shapes
from kernels.megakernel.program.instructions import ATTENTION, OUT
from kernels.megakernel.program.layout import Layout
from kernels.megakernel.program.shape import ModelShape
from kernels.megakernel.proof.effects import TILE, Access, effects
from kernels.megakernel.proof.structure import instruction_name, instruction_rows
from tests.kernels.megakernel.interpreter.attend import splits_of

Touched = dict[str, dict[str, set[int]]]
"""By "reads" and "writes": flat indexes into each buffer."""
OUTSIDE = "no buffer"
KINDS = ("reads", "writes")
SHOWN = 3


def declared(program: Program, sm: int, words: dict[str, int], splits: int, drawing: bool = False) -> Touched:
    """What the effects say of an instruction while `splits` splits of the keys are at work, in its rank's memory."""
    shape, layout = program.shape, program.layout
    result: Touched = {kind: {} for kind in KINDS}
    if words["op"] == ATTENTION and words["split"] >= splits:
        return result
    everywhere = program.rank * layout.sms + sm
    effect = effects(shape, layout, everywhere, words)

    def add(kind: str, buffer: str, indexes: NDArray[np.int64]) -> None:
        result[kind].setdefault(buffer, set()).update(indexes.tolist())

    for kind, accesses in (("reads", effect.reads), ("writes", effect.writes)):
        for access in accesses:
            indexes = words_of(shape, layout, access)
            if words["op"] == OUT and kind == "reads" and layout.splits:
                width = shape.head_dim // 2 if access.buffer == "attention" else 2
                split = indexes // width % layout.splits
                indexes = indexes[(split < splits) & merges(split, sm, splits, layout)]
            add(kind, access.buffer, indexes)
    for access in effect.exchanges if drawing else ():
        indexes = words_of(shape, layout, access)
        add("reads", access.buffer, indexes)
        own = indexes // word_shapes(shape, layout)[access.buffer][-1] % layout.all_sms == everywhere
        add("writes", access.buffer, indexes[own])
    return result


def words_of(shape: ModelShape, layout: Layout, access: Access) -> NDArray[np.int64]:
    """The words of the access's blocks, of all sequences: flat indexes into the buffer, int64, ascending."""
    size = word_shapes(shape, layout)[access.buffer]
    numbers = np.arange(math.prod(size)).reshape(size)
    half, each = TILE // 2, shape.head_dim // TILE
    if access.buffer == "attention":  # [batch, head, split, dimensions] → split, sequence, head, dimensions
        by_block = numbers.reshape(*size[:3], each, half).transpose(2, 0, 1, 3, 4).reshape(-1, half)
    elif access.buffer == "attention_state":
        by_block = numbers.transpose(2, 0, 1, 3).reshape(-1, 2)
    elif access.buffer == "qkv":
        by_block = numbers.reshape(-1, half)
    elif access.buffer == "router":
        by_block = numbers.reshape(size[0], -1, TILE).transpose(1, 0, 2).reshape(-1, size[0] * TILE)
    elif access.buffer == "counts":
        by_block = numbers.reshape(-1, size[-1])
    elif access.buffer in ("gated", "normed", "candidates"):
        by_block = numbers.reshape(size[0], -1)
    else:  # [partials, batch, tiles, half]
        by_block = numbers.reshape(*size[:2], -1, half).transpose(0, 2, 1, 3).reshape(-1, size[1] * half)
    return np.sort(by_block[access.blocks].ravel())


def merges(split: NDArray[np.int64], sm: int, splits: int, layout: Layout) -> NDArray[np.bool_]:
    """Which of the splits an SM merges in OUT when `splits` are at work: all, or its half of those of a pair."""
    if not layout.pairs:
        return np.ones_like(split, dtype=bool)
    return split // (-(-splits // 4) * 2) == sm % 2


def noted(bits: NDArray[np.uint32], program: Program, starts: dict[str, int]) -> Touched:
    """The words of one instruction from its bits [2, n]; `starts` is where each buffer begins among all words."""
    shapes = word_shapes(program.shape, program.layout)
    result: Touched = {}
    for kind, line in zip(KINDS, bits, strict=True):
        at = np.flatnonzero(np.unpackbits(np.ascontiguousarray(line).view(np.uint8), bitorder="little"))
        result[kind], left = {}, set(at.tolist())
        for name, start in starts.items():
            own = at[(at >= start) & (at < start + int(np.prod(shapes[name])))]
            if own.size:
                result[kind][name] = set((own - start).tolist())
                left -= set(own.tolist())
        if left:
            result[kind][OUTSIDE] = left
    return result


def differences(
    program: Program, bits: NDArray[np.uint32], starts: dict[str, int], splits: int, drawing: bool = False
) -> Iterator[str]:
    """A sentence for each instruction and buffer whose words differ from the declared ones."""
    for sm, table in enumerate(program.instructions):
        for words in instruction_rows(table):
            expected = declared(program, sm, words, splits, drawing)
            result = noted(bits[sm, words["index"]], program, starts)
            for kind in KINDS:
                for name in sorted({*expected[kind], *result[kind]}):
                    wanted, real = expected[kind].get(name, set()), result[kind].get(name, set())
                    if wanted != real:
                        where = f"SM {sm}, instruction {words['index']}, {instruction_name(words)}"
                        more, less = sorted(real - wanted)[:SHOWN], sorted(wanted - real)[:SHOWN]
                        yield f"{where}: {kind} of {name}: undeclared {more}, declared but not seen {less}"


def undeclared(rank: Any, tokens: int, samples: bool = False) -> list[Any]:
    """`differences` of a GPU's last launch, up to so many tokens."""
    splits = splits_of(tokens, rank.constants["SPLIT_KEYS"], rank.layout.splits)
    bits = rank.touched.cpu().numpy().view(np.uint32)
    return list(differences(rank.program, bits, rank.word_starts, splits, samples))
