"""Verdicts err at most once in a hundred times, by the very rule that measuring stops by."""

import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.simulations.verdict_errors import PERCENTILES, boundaries, errors, rows
from kernels.measure.latency import ServedBatch
from workers.documents.workload import Objective
from workers.stats import verdicts
from workers.stats.sample_sizes import MIN_REQUESTS, is_enough

MANY = 20_000


@pytest.mark.parametrize(
    ("p", "over", "needed"),
    [(99, 0, 514), (99, 1, 888), (99, 2, 1108), (95, 0, 101), (95, 1, 175), (90, 0, 49), (90, 1, 85), (50, 0, 8)],
)
def test_met_takes_the_requests_its_percentile_needs(p, over, needed):
    shares = [1.0] * over + [0.0] * (needed - over)
    assert verdicts.needed_requests(p, over) == needed
    assert verdicts.verdict(p, shares) == "met"
    assert verdicts.verdict(p, shares[:-1]) != "met"


@pytest.mark.parametrize(
    ("p", "n", "over", "expected"),
    [
        (50, 8, 8, "missed"),
        (50, 6, 6, "not_enough_samples"),
        (50, 40, 23, "too_close"),
        (50, 40, 33, "missed"),
        (99, 50, 1, "not_enough_samples"),
        (99, 50, 6, "missed"),
        (99, 600, 1, "too_close"),
        (99, 0, 0, "not_enough_samples"),
    ],
)
def test_missed_carries_the_same_burden_of_proof(p, n, over, expected):
    assert verdicts.verdict(p, [1.0] * over + [0.0] * (n - over)) == expected


def test_one_missed_objective_misses_and_one_open_leaves_open():
    order = ("met", "not_enough_samples", "too_close", "missed")
    for at, worst in enumerate(order):
        assert verdicts.overall([*order[: at + 1], "met"]) == worst


def highest_plausible(paths: int) -> int:
    """The most errors among `paths` that a true error of 1 % explains: four standard deviations above the mean."""
    return math.ceil(paths * 0.01 + 4 * math.sqrt(paths * 0.01 * 0.99))


def test_the_boundaries_are_where_requests_that_count_each_reach_a_verdict():
    objective = Objective(metric="e2e", percentile=90, limit=1)
    over = np.random.default_rng(3).random(400) < 0.02
    served = [ServedBatch(0, 0, (2_000_000 if item else 500_000,), 1, 1) for item in over]
    limits, counts = boundaries(90, 400), over.cumsum()
    reached = (counts <= limits.met) | (counts >= limits.missed)
    first = MIN_REQUESTS + reached[MIN_REQUESTS - 1 :].argmax()
    shares = over.astype(float).tolist()
    decided = [n for n in range(MIN_REQUESTS, 401) if verdicts.verdict(90, shares[:n]) in ("met", "missed")]
    assert decided[0] == first
    stopped = next(n for n in range(1, 401) if is_enough([objective], served[:n], None))
    assert first <= stopped < 2 * first, "several may count as one"


def test_requests_of_which_several_count_as_one_reach_no_verdict_that_they_do_not_reach_each():
    """So independent requests err no more often, however many are taken as one."""
    generator = np.random.default_rng(17)
    for _ in range(300):
        percentile, count = generator.choice([50, 90, 95]), generator.integers(20, 200)
        shares = (generator.random((count,)) ** 4).round(1).tolist()
        result = verdicts.verdict(percentile, shares, inefficiency=1 + generator.exponential())
        assert result not in ("met", "missed") or result == verdicts.verdict(percentile, shares)


@pytest.mark.parametrize(("p", "inefficiency"), [(50, 3), (95, 3), (50, 4.2), (50, 1.3), (95, 2.7)])
def test_needed_is_exactly_what_met_takes_where_several_count_as_one(p, inefficiency):
    needed = verdicts.needed_requests(p, inefficiency=inefficiency)
    assert verdicts.verdict(p, [0.0] * needed, inefficiency=inefficiency) == "met"
    assert verdicts.verdict(p, [0.0] * (needed - 1), inefficiency=inefficiency) == "not_enough_samples"
    if inefficiency == 3:
        many = 3 * verdicts.needed_requests(p)
        assert verdicts.verdict(p, [0.0] * many, inefficiency=3) == "met"
        assert verdicts.verdict(p, [0.0] * (many // 2), inefficiency=3) == "not_enough_samples"
        assert verdicts.verdict(p, [1.0, 1.0] + [0.0] * many, inefficiency=3) == "too_close"


@pytest.mark.parametrize("percentile", PERCENTILES[::2])
def test_looking_after_every_request_errs_at_most_once_in_a_hundred_times(percentile):
    """A promise just broken is called met, and one just kept is called missed, with 1 % at most, as the page says."""
    result = errors(percentile, MANY)
    assert max(result.met[-1], result.missed[-1]) <= 0.01
    page = (Path(__file__).parents[3] / "benchmarks" / "simulations.md").read_text()
    for row in rows(percentile):
        assert row in page


def test_the_exact_errors_are_those_of_measurements_that_are_drawn():
    generator, paths, limits = np.random.default_rng(11), 4000, boundaries(90, 1000)
    over = (generator.random((paths, 1000)) < 0.1).cumsum(axis=1)
    met, missed = over <= limits.met, over >= limits.missed
    decided = (met | missed)[:, MIN_REQUESTS - 1 :]
    first = MIN_REQUESTS - 1 + decided.argmax(axis=1)
    share = (decided.any(axis=1) & met[np.arange(paths), first]).mean()
    exact = errors(90, 1000).met[-1]
    assert abs(share - exact) < 4 * math.sqrt(exact / paths)


def test_gaps_of_one_request_do_not_count_as_if_they_were_independent():
    """One request in a hundred is slow throughout: pooled gaps would call a p99 met that is just broken."""
    generator, met, paths = np.random.default_rng(5), 0, 500
    for _ in range(paths):
        shares = (generator.random(700) < 0.0105).astype(float)
        looks = range(MIN_REQUESTS, 700, 20)
        met += any(verdicts.verdict(99, shares[:n]) == "met" for n in looks)
    assert met <= highest_plausible(paths)


def test_shares_between_none_and_all_are_judged_as_finely_as_they_are():
    assert verdicts.verdict(99, [0.004] * 2000) == "met"
    assert verdicts.verdict(99, [0.02] * 20_000) == "missed"
    assert verdicts.verdict(99, [0.01] * 20_000) == "too_close"
    # The expected factor of every bet is 1 when the true rate is the promised one.
    for side in ("met", "missed"):
        rates, log_weights = verdicts.bets(0.05, side)
        assert math.isclose(float(np.exp(log_weights).sum()), 1.0)
        np.testing.assert_allclose(0.95 * (1 - rates) / 0.95 + 0.05 * rates / 0.05, 1.0)


@pytest.mark.parametrize("percentile", [50, 99])
def test_requests_that_wait_in_one_line_do_not_count_as_if_they_were_independent(percentile):
    """Eight clients of one runner: a slow request delays the seven behind it. Service is long now and then."""
    generator, clients, paths = np.random.default_rng(7), 8, 80
    service = 1 + 0.05 * generator.random((paths, 2000)) + 20 * (generator.random((paths, 2000)) < 0.003)
    ends = service.cumsum(axis=1)
    latencies = np.hstack([ends[:, :clients], ends[:, clients:] - ends[:, :-clients]])[:, clients:]
    over = (latencies > np.quantile(latencies, percentile / 100)).astype(float)
    looks = range(MIN_REQUESTS, over.shape[1], 200)

    def wrong(spacing):
        return sum(any(verdicts.verdict(percentile, row[:n], spacing=spacing) == "met" for n in looks) for row in over)

    assert wrong(1) > 0.2 * paths
    assert wrong(clients) <= highest_plausible(paths)


def test_a_line_of_clients_takes_as_many_times_the_requests():
    objective = Objective(metric="e2e", percentile=90, limit=1)
    served = [ServedBatch(0, 0, (500_000,), 1, 1, waited=4)] * 4 * verdicts.needed_requests(90)
    assert is_enough([objective], served, None)
    assert not is_enough([objective], served[:-1], None)
    gaps = Objective(metric="tpot", percentile=90, limit=1)
    token_by_token = [ServedBatch(0, 0, (500_000, 600_000), 1, 2, waited=4)] * verdicts.needed_requests(90)
    assert is_enough([gaps], token_by_token, None)
