"""Verdicts of verify on requests that depend on those before them."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.simulations import verdict_errors
from benchmarks.simulations.verdict_errors import requests_until_met, simulated
from kernels.measure.latency import ServedBatch
from tests.simulations_page import PAGE, agrees, quoted_counts, quoted_shares
from workers.documents.workload import Objective
from workers.stats.dependence import cautious_inefficiency, statistical_inefficiency
from workers.stats.sample_sizes import MIN_REQUESTS, is_enough, judge_objective, judge_values, needed_batches

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results" / "h200"


@pytest.mark.parametrize("name", ["independent", "AR(1), 0.82"])
def test_verdicts_on_dependent_requests_err_as_seldom_as_the_page_says(name):
    quoted, paths = quoted_shares("benchmarks.simulations.verdict_errors dependent"), 25
    result, column = simulated(name, 95, paths), (50, 90, 95, 99).index(95)
    for side, share in zip(("met", "missed"), result, strict=True):
        row = quoted[f"{name}, called {side}"]
        assert agrees(share, row[column], paths)
        assert max(row) <= 0.01


@pytest.mark.parametrize("name", verdict_errors.COUNTED_EACH[-1:])
def test_dependent_requests_that_count_each_would_err(name):
    quoted = quoted_shares("benchmarks.simulations.verdict_errors dependent")
    for side, share in zip(("met", "missed"), simulated(name, 50, 100, count_each=True), strict=True):
        row = quoted[f"{name}, called {side} if each counts"]
        assert agrees(share, row[0], 100)
        assert row[0] > 0.1


@pytest.mark.parametrize("kept", verdict_errors.KEPT[:1])
def test_independent_requests_take_as_many_more_as_the_page_says(kept):
    quoted = quoted_counts("benchmarks.simulations.verdict_errors requests")
    for count_each, row in ((True, "each counts"), (False, "as verify counts")):
        assert math.isclose(requests_until_met(50, kept, count_each), quoted[f"{kept}: {row}"][0], rel_tol=0.02)


def test_the_estimate_from_few_values_is_never_below_the_other_and_ends_at_all_of_them():
    draws = np.random.default_rng(1)
    for count in (2, 5, 20, 200):
        values = draws.standard_normal(count).tolist()
        assert statistical_inefficiency(values) <= cautious_inefficiency(values) <= 1 + 4 * count
    assert cautious_inefficiency([5.0] * 20) == 1
    assert cautious_inefficiency([1.0]) == 1
    assert cautious_inefficiency(list(range(40))) > 20


def test_a_sequence_of_a_line_is_judged_by_its_own_lags():
    """Two independent halves that alternate: neighbours say nothing of each other, the next but one does."""
    slow = np.repeat([1.0, 2.0, 1.0, 2.0, 1.0, 2.0], 20)
    both = np.ravel(np.column_stack([slow, np.random.default_rng(2).random(120)])).tolist()
    assert cautious_inefficiency(both, spacing=2) > 2 * cautious_inefficiency(both)


def in_a_row(times_ms: list[float]) -> list[ServedBatch]:
    return [ServedBatch(0, 0, (int(1e6 * item),), 1, 1) for item in times_ms]


def test_times_that_creep_towards_the_limit_are_not_met_after_a_few():
    rising = in_a_row([90 + index / 4 for index in range(40)])
    near, far = Objective(metric="e2e", limit=100), Objective(metric="e2e", limit=1000)
    assert judge_objective(near, [rising], None) == "not_enough_samples"
    assert needed_batches(near, [rising], None) > 40
    assert not is_enough([near], rising, None)
    assert judge_objective(far, [rising[:MIN_REQUESTS]], None) == "met", (
        "they vary by 10 % and the limit is ten times as much"
    )


@pytest.mark.parametrize("name", ["llama-3.2-1b", "llama-3.2-1b-load", "llama-3.2-1b-in-7-minutes"])
def test_measured_requests_far_from_the_limit_keep_their_verdict(name):
    verify = json.loads((RESULTS / f"{name}.json").read_text())["results"]["verify"]
    outcome = verify["outcomes"][0]
    objective = Objective(**outcome["objective"])
    for side, verdict in (("before", "verdict_before"), ("after", "verdict")):
        values = verify[side][0]["samples"]
        shares = [float(value > objective.limit) for value in values]
        assert judge_values(objective, [values], [shares]) == outcome[verdict] in ("met", "missed")


def test_what_runs_today_depended_on_itself_on_gpus_as_the_page_says():
    runs = {path.stem: json.loads(path.read_text()).get("results", {}) for path in RESULTS.glob("*-1*b*.json")}
    before = {name: run["verify"]["before"][0] for name, run in runs.items() if run.get("verify")}
    samples = {name: each["samples"] for name, each in before.items() if each["metric"] == "ttf_n"}
    result = {
        name: round(float(np.corrcoef(each[1:], each[:-1])[0, 1]), 1)
        for name, each in samples.items()
        if len(each) >= 25
    }
    assert result.pop("llama-3.2-1b-73f6258") == 0.9
    assert set(result.values()) == {0.6, 0.7}
    assert "had 0.6 to 0.7, and 0.9 in [one run](results/h200/llama-3.2-1b-73f6258" in PAGE.read_text()


def test_what_processes_differ_by_does_not_count_as_dependence():
    """Each process is quick or slow throughout: requests of each are independent of those before them there."""
    draws, objective = np.random.default_rng(8), Objective(metric="e2e", limit=100)
    processes = [in_a_row((level + draws.random(12)).tolist()) for level in (70, 80, 90, 75, 85, 65)]
    assert judge_objective(objective, processes, None) == "met"
    assert judge_objective(objective, [[item for served in processes for item in served]], None) == "not_enough_samples"
