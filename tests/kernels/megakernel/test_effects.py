"""The effects that are declared, on which every proof rests, are those that instructions have."""

import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from kernels.megakernel.program.exchange import COPIED, word_shapes
from kernels.megakernel.program.instructions import DOWN, END, HEAD
from kernels.megakernel.proof.effects import buffer_sizes
from kernels.megakernel.proof.structure import instruction_rows
from kernels.ops.sampling import Sampling
from tests.kernels.megakernel.interpreter.attend import splits_of
from tests.kernels.megakernel.interpreter.sm import StreamingMultiprocessor
from tests.kernels.megakernel.orders import round_robin
from tests.kernels.megakernel.tiny_models import gpu, program_of, start
from tests.kernels.megakernel.touched import declared

POSITION, COUNT, SPLIT_KEYS = 14, 4, 4
"""15 keys to begin with: 4 splits of 6, and from the third token on 5."""

LAYOUTS: dict[str, dict[str, Any]] = {
    "llama": {"batch": 2, "out_parts": 2, "splits": 6},
    "llama-128": {"down_parts": 3, "splits": 6},
    "llama-32": {"batch": 2, "out_parts": 2, "down_parts": 2, "splits": 3, "heads": 2, "sliced": True},
    "qwen3": {"sms": 4, "out_parts": 3, "splits": 6},
    "qwen2": {"batch": 2, "out_parts": 2, "splits": 0},
    "qwen2 of three": {"batch": 3, "out_parts": 2, "splits": 3, "sliced": True},
    "qwen3_moe": {"down_parts": 2, "splits": 0},
    "olmoe": {"out_parts": 2, "splits": 3},
    "llama-32 in copies": {"splits": 0, "sms": 6, "out_parts": 2, "down_parts": 2, "copies": 3},
}


DRAWN = Sampling(0.8, top_k=20, top_p=0.9)


@pytest.fixture
def touched(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[int, int, int, str], dict[str, set[int]]]:
    """(SM, token, instruction, "reads" or "writes") → buffer → flat indexes of the words touched."""
    result: dict[tuple[int, int, int, str], dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    take, store = StreamingMultiprocessor.take, StreamingMultiprocessor.store

    def note(sm: StreamingMultiprocessor, what: str, buffer: str, at: Any) -> None:
        words, copies = sm.gpu.words[buffer], sm.layout.copies if buffer in COPIED else 1
        numbers = np.arange(words.size).reshape(copies, -1, *words.shape[1:])
        for copy in [sm.number % copies] if what == "reads" else range(copies):
            result[sm.number, sm.step, sm.index, what][buffer] |= set(numbers[copy][at].ravel().tolist())

    def noted_take(self: StreamingMultiprocessor, buffer: str, at: Any, flag: np.uint64) -> Any:
        note(self, "reads", buffer, at)
        return take(self, buffer, at, flag)

    def noted_store(self: StreamingMultiprocessor, buffer: str, at: Any, words: Any) -> None:
        note(self, "writes", buffer, at)
        store(self, buffer, at, words)

    monkeypatch.setattr(StreamingMultiprocessor, "take", noted_take)
    monkeypatch.setattr(StreamingMultiprocessor, "store", noted_store)
    return result


@pytest.mark.parametrize(("name", "sampling"), [(name, DRAWN if at % 2 else None) for at, name in enumerate(LAYOUTS)])
def test_instructions_touch_what_they_declare_and_nothing_else(name, sampling, touched):
    name, program = name.split()[0], program_of(name.split()[0], **LAYOUTS[name])
    begin = start(name, program.layout.batch, POSITION, 64)
    gpu(name, program, begin, COUNT, split_keys=SPLIT_KEYS, sampling=sampling).run(round_robin())
    for sm, table in enumerate(program.instructions):
        for words in instruction_rows(table):
            for step in range(COUNT):
                splits = splits_of(POSITION + step + 1, SPLIT_KEYS, program.layout.splits)
                for what, expected in declared(program, sm, words, splits, sampling is not None).items():
                    assert touched[sm, step, words["index"], what] == expected


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("llama", {}), ("llama", {"batch": 2, "sliced": True}), ("llama", {"splits": 0, "copies": 2}),
        ("qwen3_moe", {"batch": 3, "sliced": True, "down_parts": 2}),
    ],
    ids=["whole", "sliced", "copies", "experts"],
)  # fmt: skip
def test_blocks_are_cut_from_all_words(name: str, layout: dict[str, Any]) -> None:
    """One layer, the head included, writes every word of every buffer once; two layers do of `down_partials`."""
    sliced, program = "sliced" in layout, program_of(name, out_parts=2, **layout)
    assert program.layout.copies == layout.get("copies", 1)
    shape, layout = program.shape, program.layout
    written: dict[str, list[int]] = defaultdict(list)
    for sm, table in enumerate(program.instructions):
        for words in instruction_rows(table):
            if words["op"] in (END, DOWN, HEAD) or words["layer"] == 0:
                for buffer, indexes in declared(program, sm, words, layout.splits, drawing=True)["writes"].items():
                    written[buffer] += sorted(indexes)
    assert set(written) == {buffer for buffer, size in buffer_sizes(shape, layout).items() if size}
    assert ("normed" in written) == sliced
    for buffer, indexes in written.items():
        assert sorted(indexes) == list(range(math.prod(word_shapes(shape, layout)[buffer]))), buffer
