"""Gaps between tokens are judged request by request, since those of one request depend on each other."""

import numpy as np

from kernels.measure.latency import Served
from workers.documents.workload import Objective
from workers.stats import sample_sizes
from workers.stats.sample_sizes import LEAST_REQUESTS, judged

GAPS, PATHS = 15, 100
LOOKS = (LEAST_REQUESTS, 30, 40, 60, 100, 200, 400, 600)


def called_met(objective: Objective) -> float:
    """How often p99 of the gaps is called met where 1.05 % of the requests are slow throughout."""
    draws, met = np.random.default_rng(5), 0
    for _ in range(PATHS):
        gaps_ms = np.where(draws.random((LOOKS[-1], 1)) < 0.0105, 30, 10) * (1 + 0.05 * draws.random((LOOKS[-1], GAPS)))
        times = (1e6 * np.insert(gaps_ms, 0, 50, axis=1).cumsum(axis=1)).astype(int).tolist()
        served = [Served(0, 0, tuple(each), 1, GAPS + 1) for each in times]
        met += any(judged(objective, [served[:count]], None) == "met" for count in LOOKS)
    return met / PATHS


def test_gaps_of_a_request_that_is_slow_throughout_count_as_one(monkeypatch):
    """A p99 of gaps that is just broken: gap by gap, one request after another without a slow one would prove it."""
    objective, of_requests = Objective(metric="itl", percentile=99, limit=20), sample_sizes.shares_over
    assert called_met(objective) <= 0.03, "at most 1 %, and what chance adds in 100 measurements"

    def of_gaps(objective, served, usd):
        return [share for share in of_requests(objective, served, usd) for _ in range(GAPS)]

    monkeypatch.setattr(sample_sizes, "shares_over", of_gaps)
    assert called_met(objective) > 0.5
