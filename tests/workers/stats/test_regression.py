"""The build gate: what it finds, what it refuses, and how often it errs on two runs of the same program."""

import pytest
import sample_results

from benchmarks.simulations.regression_errors import SPREADS, false_alarms
from tests.simulations_page import agrees, quoted_shares
from workers.documents.speedup import ProcessMedians
from workers.documents.traffic import Traffic
from workers.stats.regression import KeptRun, NotComparable, TooFewProcesses, judge, ratio_of

STEADY = (0.998, 1.0, 1.001, 1.003)


def kept(name: str = "run A", after: float = 80.0, spread=STEADY, digest: str = "d", **workload) -> KeptRun:
    result = sample_results.results()
    processes = [ProcessMedians(before=281, after=after * by, ratio=281 / after / by, pairs=10) for by in spread]
    result.verify.speedup.processes = processes
    return KeptRun(name, digest, sample_results.workload().model_copy(update=workload), result)


def test_a_run_that_is_slower_by_more_is_found_and_both_are_named():
    result = judge(kept(), kept("run B", after=84.0), 0.03)
    assert result.regressed
    assert result.ratios["TTF64"].value == pytest.approx(1.05)
    assert result.sentence.startswith("run B is worse than run A by more than 3.0 %: median TTF64 84.0 ms ")
    exact = ratio_of([100.0] * 4, [110.0] * 4)
    assert (exact.value, exact.low, exact.high) == pytest.approx((1.1, 1.1, 1.1))


@pytest.mark.parametrize(
    ("after", "spread"),
    [
        (80.0, STEADY),  # the same
        (82.0, STEADY),  # worse by less than the limit
        (60.0, STEADY),  # better
        (84.0, (0.9, 1.0, 1.05, 1.1)),  # worse, but its processes differ by more than that
        (100.0, (0.78, 1.0, 1.01, 1.02)),  # one process is as good as the kept run's
    ],
)
def test_what_is_not_shown_to_be_worse_passes(after, spread):
    assert not judge(kept(), kept("run B", after, spread), 0.03).regressed


def test_more_throughput_is_no_regression():
    better = kept("run B", after=100.0)
    for run in (rate := kept(), better):
        outcome = run.results.verify.outcomes[0]
        objective = outcome.objective.model_copy(update={"metric": "throughput", "n": None, "direction": "at_least"})
        run.results.verify.outcomes[0] = outcome.model_copy(update={"objective": objective})
    assert not judge(rate, better, 0.03).regressed
    assert judge(better, rate, 0.03).regressed


def test_runs_of_other_things_on_another_gpu_or_in_too_few_processes_are_refused():
    elsewhere = kept("run B")
    where = elsewhere.results.verify.environment
    elsewhere.results.verify.environment = where.model_copy(update={"device": "Another device"})
    model, traffic = kept("run B", digest="e"), kept("run B", traffic=Traffic(batch=2))
    for what, other in {"model": model, "traffic": traffic, "GPU": elsewhere}.items():
        with pytest.raises(NotComparable, match=f"run B and run A differ in their {what}"):
            judge(kept(), other, 0.03)
    with pytest.raises(TooFewProcesses, match="run A has 4 and run B has 3; give the workload more minutes"):
        judge(kept(), kept("run B", spread=STEADY[:3]), 0.03)


def test_two_gpus_of_one_name_are_told():
    before, after = kept(), kept("run B", after=84.0)
    assert "two GPUs" not in judge(before, after, 0.03).sentence
    for run, gpu in ((before, "GPU-1"), (after, "GPU-2")):
        where = run.results.verify.environment
        run.results.verify.environment = where.model_copy(update={"gpu_uuid": gpu})
    result = judge(before, after, 0.03)
    assert result.regressed
    assert result.sentence.endswith("in hosts that may differ: that is part of the ratio.")


SIX = (0.998, 0.999, 1.0, 1.001, 1.002, 1.003)


def several(name: str, tpot: float, spread=SIX) -> KeptRun:
    """A run with two objectives of TTF64 and one of TPOT, whose medians after are `tpot`."""
    run = kept(name, spread=spread)
    first = run.results.verify.outcomes[0]
    other = first.objective.model_copy(update={"percentile": 95.0})
    gap = first.objective.model_copy(update={"metric": "tpot", "n": None})
    outcomes = [first, first.model_copy(update={"objective": other})]
    outcomes.append(first.model_copy(update={"objective": gap, "medians": [tpot * by for by in spread]}))
    run.results.verify.outcomes = outcomes
    return run


def test_every_objectives_metric_is_judged_and_the_worse_one_named():
    result = judge(several("run A", 1.0), several("run B", 1.2), 0.03)
    assert result.regressed
    assert list(result.ratios) == ["TTF64", "TPOT"]
    assert "median TTF64 80.0 ms where" in result.sentence
    assert "over 6 and 6 processes." in result.sentence
    assert not judge(several("run A", 1.0), several("run B", 1.0), 0.03).regressed


def test_metrics_for_which_processes_or_an_older_versions_figures_are_missing_are_left_out_and_said():
    result = judge(several("run A", 1.0, STEADY), several("run B", 1.2, STEADY), 0.03)
    assert not result.regressed
    assert "for want of processes or figures: TPOT." in result.sentence
    old = several("run A", 1.0)
    old.results.verify.outcomes = [
        outcome.model_copy(update={"medians": []}) for outcome in old.results.verify.outcomes
    ]
    result = judge(old, several("run B", 1.2), 0.03)
    assert list(result.ratios) == ["TTF64"]
    assert "for want of processes or figures: TPOT." in result.sentence


@pytest.mark.parametrize(("kind", "counts"), [("log-normal", (4, 4)), ("two kinds of processes, equally many", (6, 6))])
def test_false_alarms_are_at_most_one_in_a_hundred(kind, counts):
    """And as many as the page quotes, which has the more of two spreads."""
    paths, quoted = 1000, quoted_shares("benchmarks.simulations.regression_errors")[kind][0 if counts == (4, 4) else 4]
    result = max(false_alarms(kind, counts, limit=0.0, spread=spread, paths=paths) for spread in SPREADS)
    assert result <= 0.01
    assert agrees(result, quoted, paths)


@pytest.mark.parametrize(("kind", "counts", "metrics"), [("log-normal", (4, 5), 2), ("log-uniform", (6, 6), 4)])
def test_false_alarms_of_all_metrics_together_are_at_most_one_in_a_hundred(kind, counts, metrics):
    assert false_alarms(kind, counts, limit=0.0, paths=1000, metrics=metrics) <= 0.01
