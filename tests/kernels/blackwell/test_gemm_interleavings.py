"""Barriers and TMEM of gemm_blackwell and grouped_blackwell in every order of events; planted mistakes are found."""

from functools import cache
from typing import Any

import pytest
import torch

from kernels.blackwell import grouped_tiles
from kernels.blackwell.gemm_tiles import tile_of
from kernels.ops import GroupedCase, LinearCase
from kernels.proof import inputs
from tests.kernels.blackwell.gemm_on_cpu import noted
from tests.kernels.on_cpu.interleavings import (
    ARRIVE,
    BLOCK,
    COMMIT,
    EXPECT,
    FENCE,
    INIT,
    LOAD,
    LOOK,
    PRODUCT,
    READ,
    SCALES,
    WAIT,
    Broken,
    check,
    program,
    unfenced,
)
from tests.kernels.on_cpu.noted import Note
from tests.kernels.on_cpu.planted_steps import Change, Planting, without_the_last_meeting

STAGES = 2
CASES: dict[str, dict[str, Any]] = {
    "bf16, five tiles of one step, two accumulators": {"m": 640, "n": 128, "k": 64},
    "bf16, three tiles of two steps": {"m": 384, "n": 128, "k": 128},
    "a pair of blocks, three tiles each": {"m": 768, "n": 128, "k": 64},
    "NVFP4 by a pair, three tiles of two steps": {
        "m": 768, "n": 128, "k": 512, "weights": "nvfp4", "scales": "block16",
    },
    "MXFP8 by a pair, two tiles of 256 columns": {"m": 512, "n": 256, "k": 256, "weights": "fp8", "scales": "block32"},
}  # fmt: skip
DYNAMIC = {
    "three tiles handed out one by one": {"m": 384, "n": 128, "k": 64},
    "three tiles handed out to a pair": {"m": 768, "n": 128, "k": 64},
}
GROUPED = {
    "a tile of each of three experts": [0, 70, 198, 201],
    "a pair's of each of three experts": [70, 70, 198, 400],
}
"""The ends of four experts' rows, of which one has none."""
FIRST, _, *PAIRS = CASES
PAIR, SCALED_PAIR, SENT = PAIRS
HANDED_OUT, HANDED_OUT_TO_PAIR = DYNAMIC
_, EXPERTS_OF_PAIR = GROUPED


@cache
def notes(name: str) -> list[Note]:
    pair = name in (*PAIRS, HANDED_OUT_TO_PAIR, EXPERTS_OF_PAIR)
    params = {"columns": 256 if name == SENT else 128, "stages": STAGES, "pair": pair}
    if name in GROUPED:
        ends = torch.tensor(GROUPED[name], dtype=torch.int32)
        grouped = GroupedCase(rows=int(ends[-1]), experts=len(ends), n=128, k=64)
        given = inputs.draw(grouped, "cpu", 1) | {"offs": ends}
        result = noted(grouped, grouped_tiles.tile_of(grouped, params), given)
    else:
        case = LinearCase(**(CASES | DYNAMIC)[name])
        result = noted(case, tile_of(case, params | {"dynamic": name in DYNAMIC}), inputs.draw(case, "cpu", 1))
    return one_warp_of_each_epilogue(result) if pair else result


def one_warp_of_each_epilogue(made: list[Note]) -> list[Note]:
    """Of two blocks the first epilogue warp each: the four do not meet each other, and states would be too many."""
    kept = [0, 4, 5, 6, 10, 11]
    left = [(kept.index(note[0]), *note[1:]) for note in made if note[0] in kept]
    counted = {8: 2, 11: 5}  # readers of a drained accumulator, of an answer
    return [(*item[:3], counted.get(item[3], item[3]), *item[4:]) if item[1] == INIT else item for item in left]


@pytest.mark.parametrize("name", [*CASES, *DYNAMIC, *GROUPED])
def test_no_order_of_events_is_wrong(name: str) -> None:
    assert check(program(notes(name))) > 1000, "orders were tried"
    assert not unfenced(notes(name))


PLANTING = Planting(
    (*["full"] * STAGES, *["empty"] * STAGES, "summed", "summed", "drained", "drained", *("answered", "taken") * 2)
)
without, with_value, earlier = PLANTING.without, PLANTING.with_value, PLANTING.earlier


def one_accumulator(made: list[Note]) -> list[Note]:
    changed = [(*note[:4], note[4] % 128, *note[5:]) if note[1] == PRODUCT else note for note in made]
    return [(*note[:2], note[2] % 128, *note[3:]) if note[1] == READ else note for note in changed]


def other_stage(made: list[Note]) -> list[Note]:
    """Products of every second stage read the first one's x."""
    return [(*note[:2], note[2] % 16_384, *note[3:]) if note[1] == PRODUCT else note for note in made]


PLANTED: dict[str, Change] = {
    "the producer does not wait for an empty stage": without(WAIT, "empty"),
    "products do not wait for a full stage": without(WAIT, "full"),
    "products do not wait for a drained accumulator": without(WAIT, "drained"),
    "the epilogue does not wait for the sums": without(WAIT, "summed"),
    "the producer waits for the other parity": with_value(WAIT, "empty", lambda parity: 1 - parity),
    "parity never changes": with_value(WAIT, "summed", lambda parity: 0),
    "stages are never released": without(COMMIT, "empty"),
    "accumulators are never released": without(ARRIVE, "drained"),
    "bytes are never announced": without(EXPECT, "full"),
    "fewer bytes are announced than come": with_value(EXPECT, "full", lambda size: size - 16_384),
    "an accumulator counts three warps": with_value(INIT, "drained", lambda count: 3),
    "a stage is released before its products": earlier(COMMIT, "empty", PRODUCT),
    "an accumulator is released before it is read": earlier(ARRIVE, "drained", READ),
    "two tiles share an accumulator": one_accumulator,
    "products read another stage than they waited for": other_stage,
    "TMEM is given back before all have read it": without_the_last_meeting,
}


def a_lost_barrier_of_the_second_block(step: int, place: int) -> Change:
    """Without the steps on a barrier of the second block: 2 is its first empty stage, 4 its first sums."""

    def changed(made: list[Note]) -> list[Note]:
        second = [note[2] for note in made if note[1] == INIT and note[2] >= BLOCK]
        return [note for note in made if not (note[1] == step and note[2] == second[place])]

    return changed


PLANTED_IN_A_PAIR: dict[str, Change] = {
    "the first block does not wait for the second's copies": with_value(INIT, "full", lambda count: 1),
    "the second block's epilogue is not waited for": with_value(INIT, "drained", lambda count: 1),
    "a commit does not reach the second block": with_value(COMMIT, "summed", lambda blocks: 1),
    "the second block fills a stage that is read": a_lost_barrier_of_the_second_block(WAIT, 2),
    "the second block's epilogue does not wait": a_lost_barrier_of_the_second_block(WAIT, 4),
}
PLANTED_WHERE_SENT: dict[str, Change] = {
    "scales of w that are sent reach the sender alone": lambda made: [
        item for item in made if not (item[1] == LOAD and item[4] // BLOCK != item[0] // 3)
    ],
    "bytes of scales that are sent are announced once": with_value(EXPECT, "full", lambda size: size - 512),
    "a block sends scales while the other's products read a stage": with_value(COMMIT, "empty", lambda blocks: 1),
}
PLANTED_WITH_SCALES: dict[str, Change] = {
    "bytes of scales are not announced": with_value(EXPECT, "full", lambda size: size - 2 * 4 * 512),
    "scales of x lie in an accumulator": lambda made: [
        (*item[:3], item[3] - 256, *item[4:]) if item[1] == SCALES and item[3] < 256 + 16 else item for item in made
    ],
    "a stage is released before its scales are copied": earlier(COMMIT, "empty", SCALES),
}


PLANTED_IN_A_QUEUE: dict[str, Change] = {
    "a request does not wait until the answer before was read": without(WAIT, "taken"),
    "a tile begins before its number has come": without(WAIT, "answered"),
    "answers are never released": without(ARRIVE, "taken"),
    "an answer is released before it is read": earlier(ARRIVE, "taken", LOOK),
    "bytes of an answer are not announced": without(EXPECT, "answered"),
    "a reader of answers is not counted": with_value(INIT, "taken", lambda count: count - 1),
}


MISTAKES = [
    (FIRST, PLANTED), (PAIR, PLANTED_IN_A_PAIR), (SCALED_PAIR, PLANTED_WITH_SCALES), (SENT, PLANTED_WHERE_SENT),
    (HANDED_OUT, PLANTED_IN_A_QUEUE),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "mistake"),
    [pytest.param(name, change, id=words) for name, planted in MISTAKES for words, change in planted.items()],
)
def test_a_planted_mistake_is_found(name: str, mistake: Change) -> None:
    changed = mistake(notes(name))
    assert changed != notes(name)
    with pytest.raises(Broken):
        check(program(changed))


@pytest.mark.parametrize("step", [LOAD, EXPECT, ARRIVE], ids=["answer", "announcement", "release"])
def test_what_the_second_block_lacks_of_an_answer_is_found(step: int) -> None:
    made = notes(HANDED_OUT_TO_PAIR)
    wanted = "taken" if step == ARRIVE else "answered"
    of_second = [item for item in made if item[1] == step and PLANTING.barrier(item, made) == wanted]
    of_second = [item for item in of_second if item[0] >= 3 or item[2] >= BLOCK]
    assert of_second
    with pytest.raises(Broken):
        check(program([item for item in made if item not in of_second]))


@pytest.mark.parametrize("after", [0, 1], ids=["before", "after"])
def test_a_missing_fence_is_found(after: int) -> None:
    assert unfenced([note for note in notes(FIRST) if note[1] != FENCE or note[2] != after])
