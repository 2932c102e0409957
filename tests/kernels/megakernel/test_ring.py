"""The ring of weights, the same in every program: a slot is filled again only when every warp has read it.

A model of produce.cuh and stream.cuh: one producer, copies that land in any order of time, warps that take every chunk.
Barriers are as the GPU has them: a phase ends when all have arrived, and a wait knows its phase by its parity alone.
All orders of all steps are played.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

LAPS = 3
"""Parities come round after two."""


@dataclass(frozen=True)
class Ring:
    """A ring of `slots` for `warps`, with at most `flying` copies on their way; the rest are ways to break it."""

    slots: int
    warps: int
    flying: int
    waits_for_empty: bool = True
    waits_for_full: bool = True
    arrivals_missing: int = 0
    arrives_before_reading: bool = False
    same_parity: bool = False

    @property
    def chunks(self) -> int:
        return LAPS * self.slots + 1


@dataclass(frozen=True)
class State:
    """Chunks asked for, and of these seen to have landed by the producer, and those on their way; phases that ended of
    `full` and `empty`, and arrivals in the one at hand, by slot; of each warp the chunk it is at and whether it reads;
    the chunk in each slot, None while a copy is on its way."""

    asked: int
    known: int
    away: frozenset[int]
    full: tuple[int, ...]
    empty: tuple[int, ...]
    arrived: tuple[int, ...]
    warps: tuple[tuple[int, bool], ...]
    holds: tuple[int | None, ...]


class TooEarly(Exception):
    """A slot is filled while a warp reads it, or read while it is filled."""


def passed(phases: int, parity: int) -> bool:
    """Whether a wait for the phase of that parity ends, where so many have ended."""
    return phases % 2 != parity


def put(values: tuple, at: int, value: object) -> tuple:
    return (*values[:at], value, *values[at + 1 :])


def asks(ring: Ring, s: State) -> Iterator[State]:
    """The producer sees that its oldest copy has landed, or asks for the next chunk, once its slot is empty and few
    enough copies are on their way."""
    oldest = s.known % ring.slots
    if s.known < s.asked and passed(s.full[oldest], s.known // ring.slots % 2):
        yield replace(s, known=s.known + 1)
    slot, lap = s.asked % ring.slots, s.asked // ring.slots
    parity = lap % 2 if ring.same_parity else 1 - lap % 2
    room = not ring.waits_for_empty or passed(s.empty[slot], parity)
    if s.asked < ring.chunks and room and s.asked - s.known < ring.flying:
        if any(reading and chunk % ring.slots == slot for chunk, reading in s.warps):
            raise TooEarly
        yield replace(s, asked=s.asked + 1, away=s.away | {s.asked}, holds=put(s.holds, slot, None))


def lands(ring: Ring, s: State) -> Iterator[State]:
    """Any copy lands and ends a phase of its slot."""
    for chunk in s.away:
        slot = chunk % ring.slots
        ended = put(s.full, slot, s.full[slot] + 1)
        yield replace(s, away=s.away - {chunk}, full=ended, holds=put(s.holds, slot, chunk))


def takes(ring: Ring, s: State, warp: int) -> Iterator[State]:
    """A warp sees that its chunk is there and begins to read it, or has read it and says so."""
    chunk, reading = s.warps[warp]
    slot, lap = chunk % ring.slots, chunk // ring.slots
    if chunk == ring.chunks:
        return
    if not reading:
        if ring.waits_for_full and not passed(s.full[slot], lap % 2):
            return
        if s.holds[slot] != chunk:
            raise TooEarly
        begun = replace(s, warps=put(s.warps, warp, (chunk, True)))
        yield said(ring, begun, slot) if ring.arrives_before_reading else begun
        return
    done = replace(s, warps=put(s.warps, warp, (chunk + 1, False)))
    yield done if ring.arrives_before_reading else said(ring, done, slot)


def said(ring: Ring, s: State, slot: int) -> State:
    """The state after one more arrival at the slot's `empty`."""
    count = s.arrived[slot] + 1
    if count < ring.warps - ring.arrivals_missing:
        return replace(s, arrived=put(s.arrived, slot, count))
    return replace(s, arrived=put(s.arrived, slot, 0), empty=put(s.empty, slot, s.empty[slot] + 1))


def played(ring: Ring) -> str:
    """What some order of all steps leads to: "early", else "hangs", or "" when every one ends with all chunks read."""
    none = (0,) * ring.slots
    begin = State(0, 0, frozenset(), none, none, none, ((0, False),) * ring.warps, (None,) * ring.slots)
    seen, todo, found = {begin}, [begin], ""
    while todo:
        state = todo.pop()
        try:
            after = [*asks(ring, state), *lands(ring, state)]
            after += [take for warp in range(ring.warps) for take in takes(ring, state, warp)]
        except TooEarly:
            return "early"
        if not after and any(chunk < ring.chunks for chunk, _ in state.warps):
            found = "hangs"
        fresh = set(after) - seen
        seen |= fresh
        todo += fresh
    return found


@pytest.mark.parametrize("warps", [1, 2, 3])
@pytest.mark.parametrize(("slots", "flying"), [(1, 1), (2, 1), (2, 2), (3, 2), (4, 3)])
def test_no_slot_is_filled_before_every_warp_has_read_it(slots: int, flying: int, warps: int) -> None:
    assert played(Ring(slots, warps, flying)) == ""


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        ({"waits_for_empty": False}, "early"),
        ({"waits_for_full": False}, "early"),
        ({"arrivals_missing": 1}, "early"),
        ({"arrives_before_reading": True}, "early"),
        ({"same_parity": True}, "hangs"),
        ({"flying": 0}, "hangs"),
        ({"arrivals_missing": -1}, "hangs"),
    ],
    ids=str,
)
def test_a_ring_that_is_broken_on_purpose_is_found(broken: dict[str, int], found: str) -> None:
    assert played(replace(Ring(slots=2, warps=2, flying=2), **broken)) == found  # type: ignore[arg-type]
