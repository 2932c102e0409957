"""The ring's barriers know only the parity of a lap; `ring_problem` says when that is enough."""

import itertools

import pytest

from kernels.megakernel.ring import ring_problem, safe_groups


def wrong_chunk_taken(stages: int, groups: int, in_flight: int) -> bool:
    """Plays all that a ring can do for four laps: whether a group can take a chunk before it has landed.

    A state is the chunks issued, those of them still under way, and how many chunks each group has taken.
    """
    chunks = 4 * stages + groups
    seen, todo = set(), [(0, frozenset[int](), (0,) * groups)]
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        issued, under_way, taken = state
        before = issued - stages
        free = before < 0 or taken[before % groups] > before // groups
        if issued < chunks and free and all(n > issued - in_flight for n in under_way):
            todo.append((issued + 1, under_way | {issued}, taken))
        todo += [(issued, under_way - {n}, taken) for n in under_way]
        for group in range(groups):
            n = taken[group] * groups + group
            laps = sum(m not in under_way for m in range(n % stages, issued, stages))  # that the barrier has seen
            if n < chunks and (laps - 1) % 2 == n // stages % 2:
                if n >= issued or n in under_way:
                    return True
                todo.append((issued, under_way, (*taken[:group], taken[group] + 1, *taken[group + 1 :])))
    return False


RINGS = [ring for ring in itertools.product((1, 2, 3, 4, 5, 6), (1, 2, 4), (1, 2, 3)) if ring[2] <= ring[0]]


@pytest.mark.parametrize(("stages", "groups", "in_flight"), RINGS)
def test_a_ring_without_a_problem_never_gives_a_wrong_chunk(stages: int, groups: int, in_flight: int) -> None:
    assert wrong_chunk_taken(stages, groups, in_flight) <= (ring_problem(stages, groups, in_flight) is not None)


@pytest.mark.parametrize(("stages", "groups", "in_flight"), [(2, 4, 2), (3, 2, 3), (5, 4, 3), (6, 4, 3)])
def test_a_short_ring_with_many_groups_gives_a_wrong_chunk(stages: int, groups: int, in_flight: int) -> None:
    assert wrong_chunk_taken(stages, groups, in_flight)
    assert "two laps ago" in str(ring_problem(stages, groups, in_flight))


@pytest.mark.parametrize(("ring", "said"), [((4, 2, 5), "do not fit in 4 slots"), ((0, 1, 1), "no room to move")])
def test_impossible_rings_are_refused(ring: tuple[int, int, int], said: str) -> None:
    assert said in str(ring_problem(*ring))


def test_groups_are_halved_until_the_ring_is_safe() -> None:
    assert [safe_groups(stages, 4, 3) for stages in (3, 4, 5, 6, 7, 11)] == [1, 4, 2, 2, 4, 4]
