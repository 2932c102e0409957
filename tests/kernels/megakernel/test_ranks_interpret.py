"""Several ranks of the interpreter run a model together: they make what one GPU makes, bit by bit, in any order."""

from collections.abc import Callable, Generator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from kernels.megakernel.program import Program
from kernels.megakernel.program.instructions import ATTENTION, DOWN, OUT
from kernels.megakernel.proof.structure import instruction_rows
from kernels.megakernel.proof.validate import check_programs, validate
from kernels.ops.sampling import Sampling
from tests.kernels.megakernel.broken import find, without
from tests.kernels.megakernel.interpreter.interpret import Deadlock, SimulatedGpu, run
from tests.kernels.megakernel.interpreter.sm import StreamingMultiprocessor
from tests.kernels.megakernel.orders import Links, laggard, round_robin, shuffled
from tests.kernels.megakernel.tiny_models import LOWER, exact, gpu, logits_after, model, programs_of, start

LAYOUTS: list[dict[str, Any]] = [
    {"out_parts": 2}, {"splits": 0, "sms": 4}, {"splits": 0, "sms": 4, "pairs": True},
    {"batch": 2, "splits": 2, "sliced": True, "heads": 1}, {"splits": 2, "sliced": True},
]  # fmt: skip
NAMES = ["splits", "attending", "in pairs", "batch 2 in slices", "one sequence in slices"]
CASES = [
    ("llama-of-4", 2, 2), ("llama-of-4", 4, 3), ("llama-of-4", 4, 4), ("qwen2-of-4", 4, 0), ("qwen2-of-4", 2, 1),
    ("qwen3-of-2", 2, 0),
]  # fmt: skip
COUNT = 4


def together(name: str, made: list[Program], **options: Any) -> list[SimulatedGpu]:
    """A GPU for each rank, behind a prompt of 13 tokens."""
    begin = start(name, made[0].layout.batch, 13, 32)
    return [gpu(name, program, begin, COUNT, split_keys=4, **options) for program in made]


def logits_of(gpus: list[SimulatedGpu]) -> np.ndarray:
    """[count, batch, vocab]; every rank has left its own part of the vocabulary, and nothing else."""
    result = np.stack([item.logits for item in gpus])
    assert (np.isfinite(result).sum(axis=0) == 1).all()
    return np.nansum(result, axis=0)


def alone(layout: dict[str, Any], ranks: int) -> dict[str, Any]:
    """The layout of one GPU with the column parts of all ranks."""
    parts = {name: ranks * layout.get(name, 1) for name in ("out_parts", "down_parts")}
    return layout | parts | {"sms": 4 * ranks, "pairs": False}


@pytest.mark.parametrize(
    ("name", "ranks", "layout"),
    [(name, ranks, LAYOUTS[at]) for name, ranks, at in CASES],
    ids=[f"{name} on {ranks} {NAMES[at]}" for name, ranks, at in CASES],
)
def test_ranks_make_what_one_gpu_and_transformers_make(name: str, ranks: int, layout: dict[str, Any]) -> None:
    made = programs_of(name, tensor_parallel_size=ranks, **layout)
    check_programs(*made)
    gpus = together(name, made)
    tokens = run(gpus, round_robin())
    for item in gpus:
        np.testing.assert_array_equal(item.tokens, tokens)
    result = logits_of(gpus)
    np.testing.assert_array_equal(tokens, result.argmax(axis=-1))
    begin = start(name, made[0].layout.batch, 13, 32)
    expected, rounded = (logits_after(value(name), begin, tokens) for value in (exact, model))
    assert np.abs(result - expected).max() <= np.abs(rounded - expected).max()
    single = together(name, programs_of(name, **alone(layout, ranks)))
    np.testing.assert_array_equal(run(single, round_robin()), tokens)
    np.testing.assert_array_equal(single[0].logits, result)


@pytest.mark.parametrize(
    ("name", "ranks", "layout"),
    [
        ("qwen3_moe-of-4", 2, {"out_parts": 2}),
        ("qwen3_moe-of-4", 4, {"splits": 0, "sms": 4}),
        ("mixtral-of-2", 2, {"batch": 3, "splits": 2, "down_parts": 2, "sms": 4}),
        ("gpt_oss-of-2", 2, {"splits": 0, "sms": 4, "down_parts": 2}),
        ("olmoe-of-2", 2, {"splits": 0, "sms": 4, "down_parts": 2}),
        ("olmoe-of-2", 2, {"batch": 5, "splits": 2, "sms": 5}),
    ],
)
def test_ranks_of_a_mixture_choose_alike_and_make_what_transformers_makes(name, ranks, layout):
    """Each has some columns of every expert. A rounding may tip the router, so the median over tokens is compared."""
    made = programs_of(name, tensor_parallel_size=ranks, **layout)
    check_programs(*made)
    gpus = together(name, made)
    tokens = run(gpus, shuffled(5))
    for item in gpus:
        np.testing.assert_array_equal(item.tokens, tokens)
    assert len({tuple(sm.experts) for item in gpus for sm in item.sms}) == 1
    begin = start(name, made[0].layout.batch, 13, 32)
    expected, rounded = (logits_after(value(name), begin, tokens) for value in (exact, model))
    own, torchs = (np.median(np.abs(logits - expected).max(axis=-1)) for logits in (logits_of(gpus), rounded))
    assert own <= torchs


@pytest.mark.parametrize(
    ("weights", "ranks"),
    [*((name, 2) for name in LOWER if name not in ("int4_zero", "int8")), ("int8", 4)],
)
def test_ranks_take_their_shards_of_rounded_matrices(weights: str, ranks: int) -> None:
    """The same bits as one GPU's. Groups of int4_zero are wider than parts."""
    layout = {"splits": 0, "sms": 4, "weights": weights}
    name = "llama-of-4" if ranks == 2 else "qwen2-of-4"  # whose columns cut no groups
    gpus = together(name, programs_of(name, tensor_parallel_size=ranks, **layout))
    single = together(name, programs_of(name, **alone(layout, ranks)))
    np.testing.assert_array_equal(run(gpus, round_robin()), run(single, round_robin()))
    np.testing.assert_array_equal(logits_of(gpus), single[0].logits)


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_draw_the_same_token_as_one_gpu(ranks: int) -> None:
    """The search for the threshold of top-k and top-p goes over the SMs of all ranks."""
    how = [Sampling(0.9, top_k=20, top_p=0.8, seed=4)]
    gpus = together("llama-of-4", programs_of("llama-of-4", tensor_parallel_size=ranks, sms=4), sampling=how)
    tokens = run(gpus, shuffled(3))
    for item in gpus:
        np.testing.assert_array_equal(item.tokens, tokens)
    single = together("llama-of-4", programs_of("llama-of-4", **alone({}, ranks)), sampling=how)
    np.testing.assert_array_equal(run(single, round_robin()), tokens)


# orders and faults ----------------------------------------------------------------------------------------------------

PAIR = programs_of("qwen2-of-4", tensor_parallel_size=2, sms=3, out_parts=2, splits=2)


def outcome(made: list[Program], order: Callable[[list[int]], int]) -> bytes:
    """All logits, or which SMs wait for ever."""
    gpus = together("qwen2-of-4", made)
    try:
        run(gpus, order)
    except Deadlock as error:
        return str(error).encode()
    return logits_of(gpus).tobytes()


@cache
def healthy() -> bytes:
    return outcome(PAIR, round_robin())


def slow(*numbers: int) -> Callable[[list[int]], int]:
    """These SMs move only when no other can."""
    return lambda able: next((sm for sm in able if sm not in numbers), able[0])


@pytest.mark.parametrize(
    "order",
    [shuffled(0), shuffled(1), laggard(4), slow(0, 1, 2), slow(3, 4, 5)],
    ids=["0", "1", "fifth SM late", "first GPU late", "second GPU late"],
)
def test_any_order_of_both_gpus_gives_the_same_bits(order: Callable[[list[int]], int]) -> None:
    assert outcome(PAIR, order) == healthy()


FOUR = programs_of("qwen2-of-4", tensor_parallel_size=4, sms=4, splits=0, pairs=True)


@pytest.mark.parametrize("made", [PAIR, FOUR], ids=["two GPUs", "four GPUs"])
def test_words_that_reach_each_peer_at_another_time_give_the_same_bits(made, monkeypatch):
    expected = outcome(made, round_robin())
    for seed in range(2):
        assert outcome(made, late(seed, monkeypatch)) == expected


def late(seed: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[int]], int]:
    """An order of SMs between whose moves words reach other GPUs late."""
    links = Links(seed)
    monkeypatch.setattr(StreamingMultiprocessor, "store", lambda sm, *args: links.store(sm, *args))
    return links.pick


@pytest.mark.parametrize(
    ("made", "buffer"),
    [(PAIR, "out_partials"), (FOUR, "down_partials"), (PAIR, "candidates")],
    ids=["out", "down", "end"],
)
def test_a_wait_for_peers_that_one_sm_drops_shows(made, buffer, monkeypatch):
    """The last SM of the last GPU takes such words as they are; in each of these orders some have not arrived."""
    last, whole, expected = made[0].layout.all_sms - 1, StreamingMultiprocessor.take, outcome(made, round_robin())

    def take(sm: StreamingMultiprocessor, name: str, at: Any, flag: np.uint64) -> Generator[bool, None, Any]:
        if (sm.everywhere, name) == (last, buffer):
            return sm._copy(name, 0)[at].copy()
        return (yield from whole(sm, name, at, flag))

    monkeypatch.setattr(StreamingMultiprocessor, "take", take)
    for seed in range(3):
        assert outcome(made, late(seed, monkeypatch)) != expected


@pytest.mark.parametrize("op", [OUT, DOWN, ATTENTION])
def test_without_an_instruction_of_one_gpu_both_wait_for_ever(op: int) -> None:
    sm, index, _ = find(PAIR[1], op, layer=1)
    broken = [PAIR[0], without(PAIR[1], sm, index)]
    assert validate(*broken)
    assert b"GPU 0, SM 0 waits in" in outcome(broken, round_robin())


def test_a_gpu_that_stops_leaves_the_other_waiting_in_the_next_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter finds at once what the kernel's time limit ends: GPU 0 waits for GPU 1's partials of OUT."""
    last = next(i for i, words in enumerate(instruction_rows(PAIR[1].instructions[0])) if words["op"] == OUT)
    gpus = together("qwen2-of-4", PAIR)
    of_gpu_1 = replace(PAIR[1], instructions=[table[:last] for table in PAIR[1].instructions])
    gpus[1] = together("qwen2-of-4", [PAIR[0], of_gpu_1])[1]
    monkeypatch.setattr(gpus[1], "count", 1)
    with pytest.raises(Deadlock, match=r"GPU 0, SM 0 waits in gate_up of layer 0 of token 0"):
        run(gpus, round_robin())
