"""Requests of a load that depend on each other: how many count as one, and how often verdicts on them err."""

import math

import numpy as np
import pytest

from benchmarks.simulations import limit_errors, load_verdict_errors
from tests.simulations_page import agrees, quoted_shares
from workers.loadtest.highest_load import LimitSearch
from workers.stats import dependence
from workers.stats.verdicts import verdict


def test_requests_of_one_line_that_count_as_independent_would_err():
    draws = np.random.default_rng(0)
    limit = math.log(20) / 0.05
    tests = [limit_errors.waits(draws, 1000, 0.95) for _ in range(50)]
    shares = [(values > limit).astype(float).tolist() for values in tests]
    assert sum(verdict(95, share) == "met" for share in shares) > 25
    pairs = zip(tests, shares, strict=True)
    assert "met" not in [dependence.judge_dependent(95, values.tolist(), each, 0.99)[0] for values, each in pairs]


def test_requests_that_are_not_alike_count_each():
    independent = np.random.default_rng(0).exponential(1, 2000).tolist()
    assert dependence.statistical_inefficiency(independent) < 2
    assert dependence.statistical_inefficiency([5.0] * 100) == 1
    assert dependence.group_means([1.0, 0.0, 0.0, 1.0], 2) == [0.5, 0.5]
    result, size, needed = dependence.judge_dependent(50, independent, [0.0] * 2000, 0.99)
    assert (result, needed) == ("met", math.ceil(60 * size))
    assert dependence.judge_dependent(50, independent[:50], [0.0] * 50, 0.99)[0] == "not_enough_samples"


@pytest.mark.parametrize(("percentile", "requests"), [(50, 400), (90, 1000), (99, 4000)])
def test_a_gap_of_a_long_answer_counts_as_much_as_one_of_a_short_answer(percentile, requests):
    """One answer in five has 20 times the gaps of the others, and of these some are slow throughout: just too many."""
    draws, met, unweighed, loads = np.random.default_rng(1), 0, 0, 60
    slow = (1 - percentile / 100) * (0.2 * 200 + 0.8 * 10) / (0.2 * 200)
    for _ in range(loads):
        counts = np.where(draws.random(requests) < 0.2, 200, 10)
        shares = ((counts == 200) & (draws.random(requests) < slow)).astype(float)
        values, beyond = (20 + shares).tolist(), shares.tolist()
        met += dependence.judge_dependent(percentile, values, beyond, 0.99, counts=counts.tolist()).verdict == "met"
        unweighed += dependence.judge_dependent(percentile, values, beyond, 0.99).verdict == "met"
    assert (met <= 2, unweighed) == (True, loads)


def test_more_requests_are_needed_where_answers_are_of_unlike_lengths():
    values, within = [5.0] * 120, [0.0] * 120
    alike = dependence.judge_dependent(95, values, within, 0.99, together=1.0, counts=[9] * 120)
    assert alike == dependence.judge_dependent(95, values, within, 0.99, together=1.0)
    assert alike.verdict == "met"
    unlike = dependence.judge_dependent(95, values, within, 0.99, together=1.0, counts=[1, 9] * 60)
    assert unlike.verdict == "not_enough_samples"
    assert unlike.needed == math.ceil(alike.needed * 9 / 5)


@pytest.mark.parametrize("name", ["independent requests", "two batches in one line"])
def test_a_load_errs_as_often_as_the_page_says(name):
    quoted = quoted_shares("benchmarks.simulations.load_verdict_errors")[name]
    for percentile, share in zip(load_verdict_errors.PERCENTILES, quoted, strict=True):
        met_share = load_verdict_errors.called_met(load_verdict_errors.SERVERS[name], percentile, loads=50)
        assert agrees(met_share, share, 50)
        assert share <= 0.01


def test_a_median_has_its_verdict_on_an_unquiet_machine():
    """All requests are slower and slower, and yet within the limit."""
    rising, within = [float(index) for index in range(200)], [0.0] * 200
    assert dependence.judge_dependent(50, rising, within, 0.99, together=2.0).verdict == "met"
    assert dependence.judge_dependent(50, rising, within, 0.99).verdict == "not_enough_samples"
    assert dependence.judge_dependent(50, rising[:14], within[:14], 0.99, together=2.0).verdict == "not_enough_samples"


def test_users_who_are_independent_have_a_verdict_within_a_minute_and_a_load_of_a_search_errs_seldom():
    name, server = next(iter(load_verdict_errors.ALL_KEPT.items()))
    quoted = quoted_shares("benchmarks.simulations.load_verdict_errors")[name]
    for percentile, share in zip(load_verdict_errors.PERCENTILES, quoted, strict=True):
        met_share = load_verdict_errors.called_met(server, percentile, load_verdict_errors.KEPT, loads=20)
        assert agrees(met_share, share, 20)
        assert share > 0.9
    search, server = LimitSearch(64), load_verdict_errors.SERVERS["two batches in one line"]
    assert f"{search.confidence:.2%}" == "99.92%"
    assert load_verdict_errors.called_met(server, 95, loads=200, confidence=search.confidence) <= 0.03


def test_values_that_hardly_vary_beside_their_distance_to_the_limit_count_each():
    drifting, within = [50 + index / 1000 for index in range(400)], [0.0] * 400
    far = dependence.judge_dependent(95, drifting, within, 0.99, together=1.0, limit=100)
    assert far.verdict == "met"
    assert far.inefficiency < 1.1, "a drift of 0.1 ms, 50 ms below the limit"
    near = dependence.judge_dependent(95, drifting, within, 0.99, together=1.0, limit=50.5)
    assert near.verdict == "not_enough_samples"
    assert near.inefficiency == 400 / dependence.ENOUGH_GROUPS
