"""Verdicts and speedups from served batches."""

import pytest

from kernels.measure.latency import ServedBatch
from workers.documents.workload import Objective
from workers.measuring.alternation import Alternation
from workers.measuring.outcomes import outcomes, outcomes_of, speedup
from workers.stats.sample_sizes import is_enough


def served(ms: float, count: int, tokens: int = 4) -> list[ServedBatch]:
    """Batches one after the other, each `ms` long with a little jitter, tokens evenly spread."""
    result, now = [], 0.0
    for index in range(count):
        length = ms * (1 + 0.01 * (index % 3))
        times = tuple(int(1e6 * (now + length * (step + 1) / tokens)) for step in range(tokens))
        result.append(ServedBatch(int(1e6 * now), int(1e6 * now), times, 1, tokens))
        now += length
    return result


E2E = Objective(metric="e2e", limit=100)
COST = Objective(metric="cost_per_mtok", limit=50)


def test_a_cost_counts_only_while_the_other_objectives_hold():
    slow, fast = served(400, 20), served(80, 20)
    kept = outcomes([E2E, COST], [Alternation(slow, fast)], 3.6)[1]
    assert (kept.before, kept.verdict_before) == (None, "missed")
    assert kept.after == pytest.approx(3.6 / (4 / 0.08 * 3600) * 1e6, rel=0.03)
    assert kept.verdict == "met"
    lost = outcomes([E2E, COST], [Alternation(slow, slow)], 3.6)[1]
    assert (lost.after, lost.verdict) == (None, "missed")


FASTER = Objective(metric="e2e", at_least_faster=2)


@pytest.mark.parametrize(
    ("after", "found"),
    [
        (served(100, 40), "met"),
        (served(350, 40), "missed"),
        (served(150, 20) + served(260, 20), "too_close"),
        (served(100, 8), "not_enough_samples"),
    ],
)
def test_a_promise_relative_to_before_is_judged_by_the_interval_of_the_ratio(after, found):
    processes = [Alternation(served(400, len(after)), after)]
    (outcome,) = outcomes_of([FASTER], processes, None)
    assert outcome.ratio == speedup(FASTER, processes, None).ratio
    assert (outcome.verdict_before, outcome.verdict, outcome.over) == ("missed", found, 0)
    same = served(400, 40)
    (outcome,) = outcomes_of([FASTER], [Alternation(same, same)], None)
    assert (outcome.ratio.value, outcome.verdict_before, outcome.verdict) == (1, "missed", "missed")


def test_over_several_processes_the_ratio_contains_their_spread():
    alike = [Alternation(served(400, 20), served(100, 20))] * 3
    assert outcomes_of([FASTER], alike, None)[0].verdict == "met"
    few = [Alternation(served(400, pairs), served(100, pairs)) for pairs in (9, 3, 3)]
    assert outcomes_of([FASTER], few, None)[0].verdict == "met"
    assert outcomes_of([FASTER], few[1:], None)[0].verdict == "not_enough_samples"
    apart = [*alike[:2], Alternation(served(400, 20), served(300, 20))]
    assert outcomes_of([FASTER], apart, None)[0].verdict == "too_close"


def test_a_throughput_is_faster_when_there_is_more_of_it_and_a_cost_needs_the_other_promise_to_hold():
    more = Objective(metric="throughput", at_least_faster=2)
    assert outcomes_of([more], [Alternation(served(400, 40), served(100, 40))], None)[0].verdict == "met"
    cost = Objective(metric="cost_per_mtok", limit=1000)
    slow, fast = (
        outcomes_of([FASTER, cost], [Alternation(served(400, 40), served(ms, 40))], 3.6)[1] for ms in (350, 100)
    )
    assert (slow.after, slow.verdict, fast.verdict) == (None, "missed", "met")


@pytest.mark.parametrize("objective", [E2E, Objective(metric="throughput", limit=1), COST])
def test_better_is_above_one_whatever_the_direction(objective):
    result = speedup(objective, [Alternation(served(400, 20), served(100, 20))], 3.6)
    assert result.ratio.value == pytest.approx(4, rel=0.02)
    assert result.difference
    assert not speedup(objective, [Alternation(served(100, 20), served(100, 20))], 3.6).difference


def test_sampling_goes_on_until_every_objective_is_decided_and_a_ratio_has_its_pairs():
    assert not is_enough([FASTER], served(100, 39), None)
    assert is_enough([FASTER], served(100, 40), None)
    strict = Objective(metric="e2e", percentile=90, limit=100)
    assert not is_enough([strict], served(80, 48), None)
    assert is_enough([strict], served(80, 49), None)
    assert is_enough([strict], served(400, 20), None)
    assert not is_enough([E2E], served(80, 19), None)
