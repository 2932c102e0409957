"""flash_blackwell's barriers and TMEM in every order of events; each planted mistake is found."""

from functools import cache
from typing import Any

import pytest

from kernels.ops import AttentionCase
from kernels.proof import inputs
from tests.kernels.blackwell.flash_on_cpu import noted, rising
from tests.kernels.on_cpu.interleavings import (
    ARRIVE,
    COMMIT,
    EXPECT,
    FENCE,
    INIT,
    PRODUCT,
    READ,
    STORE,
    WAIT,
    WEIGHTED,
    Broken,
    check,
    program,
    unfenced,
)
from tests.kernels.on_cpu.noted import Note
from tests.kernels.on_cpu.planted_steps import Change, Planting, without_the_last_meeting

SLOTS, HEAD_DIM, KEYS = 3, 64, 128
IDLE = (10, 11)
"""Warps without a role."""

CASES: dict[str, dict[str, Any]] = {
    "causal, two blocks of keys, of which a half sees one": {"q_len": 256, "kv_len": 256},
    "two tiles of three blocks of keys": {"q_len": 512, "kv_len": 384, "causal": False},
}
_, FIRST = CASES


@cache
def notes(name: str) -> list[Note]:
    """The steps of a run in which every block of keys raises the bases."""
    case = AttentionCase(kind="prefill", head_dim=HEAD_DIM, heads=1, kv_heads=1, batch=1, **CASES[name])
    result = noted(case, rising(inputs.draw(case, "cpu", 1)), {"slots": SLOTS})
    return [item for item in result if item[0] not in IDLE]


def one_warp_of_each_half(made: list[Note]) -> list[Note]:
    """The four do not meet each other, and with all of them states would be too many for long programs."""
    kept = [0, 4, 8, 9]
    left = [(kept.index(note[0]), *note[1:]) for note in made if note[0] in kept]
    return [(*item[:3], 1, *item[4:]) if item[1] == INIT and item[3] == 4 else item for item in left]


def test_no_order_of_events_is_wrong() -> None:
    for name in CASES:
        assert check(program(one_warp_of_each_half(notes(name)))) > 1000, "orders were tried"


@pytest.mark.parametrize("name", CASES)
def test_fences_stand_where_threads_meet(name: str) -> None:
    assert not unfenced(notes(name))
    for after in (0, 1):
        assert unfenced([note for note in notes(name) if note[1] != FENCE or note[2] != after])


PLANTING = Planting(
    ("full",) * SLOTS + ("empty",) * SLOTS + ("q_full",) * 2 + ("q_empty",) * 2 + ("scores",) * 2 + ("sums",) * 2
    + ("weights",) * 2
)  # fmt: skip
without, with_value, earlier = PLANTING.without, PLANTING.with_value, PLANTING.earlier


def halves_share_scores(made: list[Note]) -> list[Note]:
    """The scores and weights of the second half lie where the first one's do."""
    scores = 2 * KEYS
    changed = [(*note[:4], note[4] % KEYS, *note[5:]) if note[1] == PRODUCT else note for note in made]
    changed = [(*item[:2], item[2] % KEYS, *item[3:]) if item[1] == WEIGHTED else item for item in changed]
    return [
        (*item[:2], item[2] % KEYS, *item[3:]) if item[1] in (READ, STORE) and item[2] < scores else item
        for item in changed
    ]


def sums_over_scores(made: list[Note]) -> list[Note]:
    """Sums begin half a head_dim too early: those of the first half over the second one's scores."""
    return [(*note[:4], note[4] - HEAD_DIM // 2, *note[5:]) if note[1] == WEIGHTED else note for note in made]


def other_slot(made: list[Note]) -> list[Note]:
    """Products of weights read the next slot of the ring, which begins behind the queries of both halves."""
    slot = KEYS * HEAD_DIM * 2
    return [
        (*note[:3], 2 * slot + (note[3] - slot) % (SLOTS * slot), *note[4:]) if note[1] == WEIGHTED else note
        for note in made
    ]


PLANTED: dict[str, Change] = {
    "copies do not wait for an empty slot": without(WAIT, "empty"),
    "products do not wait for a full slot": without(WAIT, "full"),
    "products do not wait for weights": without(WAIT, "weights"),
    "the softmax does not wait for scores": without(WAIT, "scores"),
    "sums are rescaled and read before their values": without(WAIT, "sums"),
    "the softmax waits for the other parity": with_value(WAIT, "scores", lambda parity: 1 - parity),
    "the parity of sums never changes": with_value(WAIT, "sums", lambda parity: 0),
    "slots are never released": without(COMMIT, "empty"),
    "weights are never announced": without(ARRIVE, "weights"),
    "bytes are never announced": without(EXPECT, "full"),
    "fewer bytes are announced than come": with_value(EXPECT, "q_full", lambda size: size - 16),
    "a slot counts two commits": with_value(INIT, "empty", lambda count: 2),
    "sums are announced before their products": earlier(COMMIT, "sums", WEIGHTED),
    "weights are announced before they are stored": earlier(ARRIVE, "weights", READ),
    "both halves share columns of scores": halves_share_scores,
    "sums lie over scores": sums_over_scores,
    "values are read from another slot": other_slot,
    "TMEM is given back before all have read it": without_the_last_meeting,
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_planted_mistake_is_found(mistake: str) -> None:
    right = one_warp_of_each_half(notes(FIRST))
    changed = PLANTED[mistake](right)
    assert changed != right
    with pytest.raises(Broken):
        check(program(changed))
