"""The figures every verdict rests on."""

import numpy as np
import pytest

from kernels.measure import intervals
from kernels.measure.latency import ServedBatch
from workers.documents.workload import Objective
from workers.stats import intervals as statistics

MS = 1_000_000


def served(intended_ms: float, start_ms: float, *times_ms: float, requests: int = 1) -> ServedBatch:
    times = tuple(int(time * MS) for time in times_ms)
    return ServedBatch(int(intended_ms * MS), int(start_ms * MS), times, requests, len(times))


def test_percentile_is_the_sample_at_floor_n_p_and_an_outlier_stays_in_the_distribution():
    for p, n, index in ((50, 7, 3), (50, 2, 1), (99, 100, 99), (99, 50, 49), (29, 100, 29), (0, 3, 0)):
        assert intervals.percentile(list(range(n)), p) == index
    with pytest.raises(ValueError, match="0 samples"):
        intervals.percentile([], 50)
    result = statistics.distribution([1.0] * 99 + [500.0], "ttft")
    assert result.percentiles["p99"] == 500.0
    assert len(result.samples) == 100


def test_a_request_counts_by_the_share_of_its_samples_beyond_the_limit():
    requests = [served(0, 0, 10, 20, 30), served(0, 0, 10, 20, 45), served(0, 0, 10)]
    gaps = Objective(metric="itl", percentile=99, limit=15)
    assert statistics.shares_over(gaps, requests, None) == [0.0, 0.5]
    assert statistics.shares_over(Objective(metric="e2e", limit=30), requests, None) == [0.0, 1.0, 0.0]


def test_goodput_counts_requests_that_met_every_objective_and_a_percentile_is_the_rate_that_so_many_reach():
    requests = [served(0, 0, 50, 100), served(100, 100, 190, 200), served(200, 200, 250, 400)]
    objectives = [Objective(metric="ttft", limit=60), Objective(metric="e2e", limit=150)]
    assert statistics.goodput(requests, objectives) == pytest.approx(1 / 0.4)
    assert statistics.goodput(requests, [Objective(metric="cost_per_mtok", limit=1)]) is None
    floor, rates = Objective(metric="throughput", percentile=90, limit=10), [float(rate) for rate in range(1, 11)]
    assert (statistics.objective_value(floor, rates), statistics.count_over(floor, rates)) == (1.0, 9)


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


def test_requests_that_wait_in_one_line_make_no_difference_of_the_same_plan():
    """Eight clients of one runner: each latency is the sum of eight services, and its neighbours share seven."""
    generator, clients, result = np.random.default_rng(3), 8, {1: 0, 8: 0}
    for _ in range(30):
        ends = generator.lognormal(0, 0.1, (2, 80 + clients)).cumsum(axis=1)
        sides = [list(end) for end in ends[:, clients:] - ends[:, :-clients]]
        for spacing in result:
            noise = statistics.noise_floor(*sides, spacing=spacing)
            result[spacing] += statistics.is_difference(statistics.paired_ratio(*sides, spacing=spacing), noise)
    assert result[1] > 5
    assert result[8] <= 1


def test_few_independent_samples_leave_the_whole_range():
    samples = [5.0, 1.0, 3.0, 2.0, 4.0, 6.0, 7.0, 9.0, 8.0]
    result = statistics.thinned_median_interval(samples, spacing=4)
    assert (result.low, result.value, result.high) == (1.0, 5.0, 9.0)
    assert statistics.thinned_median_interval(samples) == statistics.thinned_median_interval(samples), (
        "the same each time"
    )
