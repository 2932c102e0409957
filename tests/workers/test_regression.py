"""The build gate: what it finds, what it refuses, and how often it errs on two runs of the same program."""

import pytest
import sample_results

from workers.documents.speedup import ProcessMedians
from workers.documents.traffic import Traffic
from workers.regression import Kept, NotComparable, TooFewProcesses, judge, ratio_of
from workers.regression_errors import false_alarms
from workers.speedup_coverage import FACTORS

STEADY = (0.998, 1.0, 1.001, 1.003)


def kept(name: str = "run A", after: float = 80.0, spread=STEADY, digest: str = "d", **workload) -> Kept:
    found = sample_results.results()
    processes = [ProcessMedians(before=281, after=after * by, ratio=281 / after / by, pairs=10) for by in spread]
    found.verify.speedup.processes = processes
    return Kept(name, digest, sample_results.workload().model_copy(update=workload), found)


def test_a_run_that_is_slower_by_more_is_found_and_both_are_named():
    found = judge(kept(), kept("run B", after=84.0), 0.03)
    assert found.regressed
    assert found.ratio.value == pytest.approx(1.05)
    assert found.sentence.startswith("run B is worse than run A by more than 3.0 %: median TTF64 84.0 ms where it was")


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


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (kept("run B", digest="e"), "model"),
        (kept("run B", traffic=Traffic(batch=2)), "traffic"),
    ],
)
def test_runs_of_other_things_are_refused_by_a_sentence(other, what):
    said = f"run B and run A differ in their {what}, so neither is a regression of the other."
    with pytest.raises(NotComparable, match=said):
        judge(kept(), other, 0.03)


def test_another_gpu_is_refused():
    other = kept("run B")
    where = other.results.verify.environment
    other.results.verify.environment = where.model_copy(update={"device": "Another device"})
    with pytest.raises(NotComparable, match="differ in their GPU"):
        judge(kept(), other, 0.03)


def test_too_few_processes_are_said_with_both_runs():
    with pytest.raises(TooFewProcesses, match="run A has 4 and run B has 3; give the workload more minutes"):
        judge(kept(), kept("run B", spread=STEADY[:3]), 0.03)


def test_the_interval_by_hand():
    found = ratio_of([100.0] * 4, [110.0] * 4)
    assert (found.value, found.low, found.high) == pytest.approx((1.1, 1.1, 1.1))


@pytest.mark.parametrize("kind", FACTORS)
@pytest.mark.parametrize("counts", [(4, 4), (6, 6)])
def test_false_alarms_are_at_most_one_in_a_hundred(kind, counts):
    assert false_alarms(kind, counts, limit=0.0, paths=3000) <= 0.01
