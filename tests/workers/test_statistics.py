"""The figures every verdict rests on."""

import numpy as np
import pytest

from workers import statistics
from workers.documents.workload import Objective
from workers.statistics import Served

MS = 1_000_000


def served(intended_ms: float, start_ms: float, *times_ms: float, requests: int = 1) -> Served:
    times = tuple(int(time * MS) for time in times_ms)
    return Served(int(intended_ms * MS), int(start_ms * MS), times, requests, len(times))


@pytest.mark.parametrize(
    ("p", "over", "needed"),
    [
        (99, 0, 459),
        (99, 1, 662),
        (99, 2, 838),
        (95, 0, 90),
        (95, 1, 130),
        (90, 0, 44),
        (90, 1, 64),
        (50, 0, 7),
        (50, 1, 11),
    ],
)
def test_verdict_takes_the_samples_its_percentile_needs(p, over, needed):
    assert statistics.needed_samples(p, over) == needed
    assert statistics.verdict(p, needed, over) == "met"
    assert statistics.verdict(p, needed - 1, over) != "met"


@pytest.mark.parametrize(
    ("p", "n", "over", "expected"),
    [
        (50, 7, 7, "missed"),
        (50, 6, 6, "not_enough_samples"),
        (50, 7, 6, "not_enough_samples"),
        (99, 50, 1, "not_enough_samples"),
        (99, 50, 4, "missed"),
        (99, 459, 12, "missed"),
        (99, 459, 3, "not_enough_samples"),
        (99, 0, 0, "not_enough_samples"),
    ],
)
def test_missed_carries_the_same_burden_of_proof(p, n, over, expected):
    assert statistics.verdict(p, n, over) == expected


def test_verdicts_err_at_most_once_in_a_hundred_at_the_boundary():
    generator = np.random.default_rng(7)
    over = generator.binomial(459, 0.0101, size=4000)
    wrong = sum(statistics.verdict(99, 459, int(each)) == "met" for each in over)
    assert wrong / 4000 < 0.015


def test_one_missed_objective_misses_and_one_open_leaves_open():
    assert statistics.overall(["met", "met"]) == "met"
    assert statistics.overall(["met", "not_enough_samples"]) == "not_enough_samples"
    assert statistics.overall(["not_enough_samples", "missed", "met"]) == "missed"


@pytest.mark.parametrize(
    ("p", "n", "index"), [(50, 7, 3), (50, 2, 1), (99, 100, 99), (99, 50, 49), (29, 100, 29), (0, 3, 0)]
)
def test_percentile_is_the_sample_at_floor_n_p(p, n, index):
    assert statistics.percentile(list(range(n)), p) == index


def test_percentile_of_nothing_is_refused():
    with pytest.raises(ValueError, match="0 samples"):
        statistics.percentile([], 50)


def test_an_outlier_stays_in_the_distribution():
    found = statistics.distribution([1.0] * 99 + [500.0], "ttft")
    assert found.percentiles["p99"] == 500.0
    assert len(found.samples) == 100


def test_queueing_counts_from_the_intended_send_time():
    late = served(0, 90, 100, 110, 120)
    assert statistics.samples_of(late, "ttft") == [100]
    assert statistics.samples_of(late, "ttf_n", 2) == [110]
    assert statistics.samples_of(late, "e2e") == [120]
    assert statistics.samples_of(late, "tpot") == [10]
    assert statistics.samples_of(late, "itl") == [10, 10]
    assert statistics.samples_of(late, "throughput") == [pytest.approx(100)]


def test_cost_follows_the_tokens_per_second_of_a_busy_gpu():
    batch = served(0, 0, 500, 1000, requests=50)
    assert statistics.samples_of(batch, "cost_per_mtok", usd_per_hour=3.6) == [pytest.approx(10.0)]
    with pytest.raises(ValueError, match="price"):
        statistics.samples_of(batch, "cost_per_mtok")


def test_goodput_counts_requests_that_met_every_objective():
    requests = [served(0, 0, 50, 100), served(100, 100, 190, 200), served(200, 200, 250, 400)]
    objectives = [Objective(metric="ttft", limit=60), Objective(metric="e2e", limit=150)]
    assert statistics.goodput(requests, objectives) == pytest.approx(1 / 0.4)
    assert statistics.goodput(requests, [Objective(metric="cost_per_mtok", limit=1)]) is None


def test_a_throughput_percentile_is_the_rate_that_so_many_reach():
    floor = Objective(metric="throughput", percentile=90, limit=10)
    rates = [float(rate) for rate in range(1, 11)]
    assert statistics.objective_value(floor, rates) == 1.0
    assert statistics.count_over(floor, rates) == 9


def test_paired_ratio_covers_the_true_speedup_and_ignores_shared_drift():
    generator = np.random.default_rng(1)
    drift = np.linspace(1, 1.5, 60)
    after = 10 * drift * generator.normal(1, 0.01, 60)
    ratio = statistics.paired_ratio(2 * after * generator.normal(1, 0.01, 60), after)
    assert ratio.low <= 2.0 <= ratio.high
    assert ratio.low < ratio.value < ratio.high
    assert statistics.paired_ratio(list(after), list(after)).value == 1.0


def test_a_difference_inside_the_noise_floor_is_none():
    generator = np.random.default_rng(2)
    before, after = generator.normal(10, 1, 40), generator.normal(10, 1, 40)
    noise = statistics.noise_floor(list(before), list(after))
    assert noise.low < 1 < noise.high
    assert not statistics.is_difference(statistics.paired_ratio(list(before), list(after)), noise)
    assert statistics.is_difference(statistics.paired_ratio(list(3 * before), list(after)), noise)


def test_intervals_are_the_same_each_time():
    values = [1.0, 2.0, 3.0, 5.0, 8.0]
    assert statistics.median_interval(values) == statistics.median_interval(values)
