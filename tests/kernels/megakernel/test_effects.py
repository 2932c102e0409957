"""The effects that are declared, on which every proof rests, are those that instructions have."""

import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from kernels.megakernel.effects import effects, sizes, words_of
from kernels.megakernel.interpret import Sm, in_turn, splits_of
from kernels.megakernel.program import ATTENTION, END, OUT, Program
from kernels.megakernel.structure import rows_of
from kernels.megakernel.words import word_shapes
from tests.kernels.megakernel.tiny_models import gpu, program_of, start

POSITION, COUNT, SPLIT_KEYS = 14, 4, 4
"""15 keys to begin with: 4 splits of 6, and from the third token on 5."""

LAYOUTS: dict[str, dict[str, Any]] = {
    "llama": {"batch": 2, "out_parts": 2, "splits": 6},
    "llama-128": {"down_parts": 3, "splits": 6},
    "qwen3": {"sms": 4, "out_parts": 3, "splits": 6},
}


@pytest.fixture
def touched(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[int, int, int, str], dict[str, set[int]]]:
    """(SM, token, instruction, "reads" or "writes") → buffer → flat indexes of the words touched."""
    found: dict[tuple[int, int, int, str], dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    take, store = Sm._take, Sm._store

    def note(sm: Sm, what: str, buffer: str, at: Any) -> None:
        buffers = sm.gpu.words[buffer]
        indexes = np.arange(buffers.size).reshape(buffers.shape)[at]
        found[sm.number, sm.step, sm.index, what][buffer] |= set(indexes.ravel().tolist())

    def noted_take(self: Sm, buffer: str, at: Any, tag: np.uint64) -> Any:
        note(self, "reads", buffer, at)
        return take(self, buffer, at, tag)

    def noted_store(self: Sm, buffer: str, at: Any, words: Any) -> None:
        note(self, "writes", buffer, at)
        store(self, buffer, at, words)

    monkeypatch.setattr(Sm, "_take", noted_take)
    monkeypatch.setattr(Sm, "_store", noted_store)
    return found


def declared(program: Program, sm: int, words: dict[str, int], splits: int) -> dict[str, dict[str, set[int]]]:
    """What the effects say of an instruction while `splits` splits are at work."""
    shape, layout = program.shape, program.layout
    found: dict[str, dict[str, set[int]]] = {"reads": defaultdict(set), "writes": defaultdict(set)}
    if words["op"] == ATTENTION and words["split"] >= splits:
        return found
    effect = effects(shape, layout, sm, words)
    for what, accesses in (("reads", effect.reads), ("writes", effect.writes)):
        for access in accesses:
            indexes = words_of(shape, layout, access)
            if words["op"] == OUT and what == "reads":
                width = shape.head_dim // 2 if access.buffer == "attention" else 2
                indexes = indexes[indexes // width % layout.splits < splits]
            found[what][access.buffer] |= set(indexes.tolist())
    return found


@pytest.mark.parametrize("name", LAYOUTS)
def test_instructions_touch_what_they_declare_and_nothing_else(name: str, touched: dict) -> None:
    program = program_of(name, **LAYOUTS[name])
    gpu(name, program, start(name, program.layout.batch, POSITION, 64), COUNT, split_keys=SPLIT_KEYS).run(in_turn())
    for sm, table in enumerate(program.instructions):
        for words in rows_of(table):
            for step in range(COUNT):
                splits = splits_of(POSITION + step + 1, SPLIT_KEYS, program.layout.splits)
                for what, expected in declared(program, sm, words, splits).items():
                    assert touched[sm, step, words["index"], what] == expected


def test_blocks_are_cut_from_all_words() -> None:
    """One layer, the head included, writes every word of every buffer once."""
    program = program_of("llama", batch=2, out_parts=2)
    shape, layout = program.shape, program.layout
    written: dict[str, list[int]] = defaultdict(list)
    for sm, table in enumerate(program.instructions):
        for words in rows_of(table):
            if words["op"] == END or words["layer"] in (0, shape.layers):
                for access in effects(shape, layout, sm, words).writes:
                    written[access.buffer] += words_of(shape, layout, access).tolist()
    assert set(written) == set(sizes(shape, layout))
    for buffer, indexes in written.items():
        assert sorted(indexes) == list(range(math.prod(word_shapes(shape, layout)[buffer]))), buffer
