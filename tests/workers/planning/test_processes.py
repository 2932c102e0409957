"""Before and after in several processes: what is served there, the ratio over them, and verdicts on all requests."""

import itertools

import pytest

from benchmarks.simulations.speedup_coverage import (
    DRIFTS,
    PAIRS,
    coverage,
    coverage_stopping,
    coverage_turns,
    coverage_within,
)
from kernels.plan import Plan
from tests.simulations_page import agrees, quoted_shares
from tests.workers.conftest import ENVIRONMENT, plan_of, stage_input
from tests.workers.measuring.test_outcomes import E2E, served
from workers.harness.context import Context
from workers.measuring.alternation import Alternation
from workers.measuring.outcomes import outcomes_of, speedup
from workers.planning import processes
from workers.planning.confirmation import PlanMeasurement
from workers.planning.fresh_process import Result
from workers.planning.verdict_words import sentence
from workers.stats import intervals

SEEN_BEFORE = (494.0, 497.0, 649.0)


def processes_of(*medians: tuple[float, float]) -> list[Alternation]:
    return [Alternation(served(before, 12), served(after, 12)) for before, after in medians]


def test_the_interval_contains_the_spread_between_processes():
    result = speedup(E2E, processes_of(*((before, 37.6) for before in SEEN_BEFORE)), None)
    assert [process.before for process in result.processes] == pytest.approx([item * 1.01 for item in SEEN_BEFORE])
    ratios = [process.ratio for process in result.processes]
    assert result.ratio.low < min(ratios) < result.ratio.value < max(ratios) < result.ratio.high
    assert result.scope == "over 3 processes, 2 of them fresh"
    assert result.difference
    assert not speedup(E2E, processes_of((100, 90), (100, 115), (100, 80)), None).difference, "they contradict"


def test_the_noise_floor_is_the_plan_in_one_process_against_itself_in_another():
    result = speedup(E2E, processes_of((500, 100), (500, 104), (500, 98)), None)
    assert result.noise.value == pytest.approx(104 / 98, rel=1e-3)
    assert result.noise.low == pytest.approx(98 / 104, rel=1e-3)
    assert result.noise_sentence.startswith("Repeats varied ")
    assert intervals.noise_across_processes([5.0, 5.0]).value == 1


def test_two_processes_claim_no_more_than_the_first():
    with pytest.raises(ValueError, match="their spread takes 3"):
        intervals.ratio_across_processes([1.0, 2.0])
    two = speedup(E2E, processes_of((494, 37.6), (717, 37.6)), None)
    assert two.scope == "within one process"
    assert two.ratio == speedup(E2E, processes_of((494, 37.6)), None).ratio
    assert len(two.processes) == 2


def test_all_requests_are_judged_and_a_process_that_misses_alone_is_too_close():
    calm = outcomes_of([E2E], processes_of((500, 80), (500, 81), (500, 82)), None)[0]
    assert (calm.verdict, calm.verdict_before, calm.requests) == ("met", "missed", 36)
    fast, slow = Alternation(served(80, 60), served(80, 60)), Alternation(served(400, 20), served(400, 20))
    result = outcomes_of([E2E], [fast, slow, fast], None)[0]
    assert (result.verdict, result.verdict_before, result.missed_in) == ("too_close", "too_close", 1)
    words = sentence([result], speedup(E2E, [fast], None), None, "too_close")
    assert "the requests of 1 of the processes miss it" in words


def test_what_further_processes_take_is_kept_for_them_where_it_is_left(tmp_path):
    """Two of them: 3 s to start, 4 s to load, and a fifth more than five pairs of 0.5 s and 0.1 s."""
    alternations, plan = processes_of((500, 100)), Plan(model_digest="0" * 64, gpu="cpu", runner="eager", dtype="fp32")
    attempt = PlanMeasurement(
        label="eager", plan=plan, changed=True, environment=ENVIRONMENT, processes=alternations,
        outcomes=outcomes_of([E2E], alternations, None), speedup=speedup(E2E, alternations, None), quality=None,
        no_quality="", served_ids=None, refusal="", seconds=0.0, ready_seconds=4.0,
    )  # fmt: skip

    def kept(seconds: float, startup: float | None) -> float:
        return attempt.kept_for_processes(Context(tmp_path, tmp_path, seconds=seconds, startup_seconds=startup))

    each = 3 + 4 + 1.2 * 5 * (0.5 * 1.01 + 0.1 * 1.01)
    assert kept(60, 3.0) == pytest.approx(2 * each, rel=0.01)
    assert kept(20, 3.0) == 0  # none will be started
    assert kept(60, None) == 0  # a stage without a process of its own


def test_what_processes_served_lies_on_one_clock():
    one, other = served(100, 5), served(50, 5)
    both = intervals.join_processes([one, other])
    assert all(a.times_ns[-1] <= b.start_ns for a, b in itertools.pairwise(both))
    assert intervals.tokens_per_second(both) == pytest.approx(40 / (0.1 * 5.04 + 0.05 * 5.04), rel=0.02)


def test_a_trend_is_drift_and_scatter_is_not():
    scatter = [100 + 7 * (index * 37 % 11) for index in range(40)]
    assert intervals.drift(scatter) is None
    assert intervals.drift([100 + index for index in range(40)]) == pytest.approx(129.5 / 109.5)
    assert intervals.drift([100 + 0.01 * index for index in range(40)]) is None
    result = speedup(E2E, [Alternation(served(100, 20), [*served(50, 10), *served(60, 10)])], None)
    assert "the plan in process 1 by +20 %" in result.drift_words


@pytest.mark.parametrize("kind", ["log-normal", "the four that were seen"])
def test_the_coverage_is_the_one_that_the_page_quotes(kind):
    quoted = quoted_shares("benchmarks.simulations.speedup_coverage")[kind]
    for count, share in zip((3, 4, 5, 6), quoted, strict=True):
        assert agrees(coverage(kind, count, paths=1000), share, 1000)


@pytest.mark.parametrize("kind", ["long tail", "AR(1), 0.61"])
def test_the_coverage_within_a_process_is_the_one_that_the_page_quotes(kind):
    quoted = quoted_shares("benchmarks.simulations.speedup_coverage within")[kind]
    assert len(quoted) == len(PAIRS)
    assert agrees(coverage_within(kind, PAIRS[0], paths=250), quoted[0], 250)


def test_the_coverage_by_verifys_rule_is_the_one_that_the_page_quotes():
    quoted = quoted_shares("benchmarks.simulations.speedup_coverage stopping")
    contained, stopped = coverage_stopping(1.8, paths=1000)
    assert agrees(contained, quoted["interval contains it"][2], 1000)
    assert agrees(stopped, quoted["four processes"][2], 1000)
    assert coverage("log-normal", 3, paths=2000) > 0.935
    assert coverage("two kinds of processes, equally many", 6, paths=2000) > 0.945


def test_drift_favours_neither_side_in_turns():
    quoted = quoted_shares("benchmarks.simulations.speedup_coverage turns")
    for drift in DRIFTS[::2]:
        ways = [(turns, balanced) for balanced in (True, False) for turns in (3, 5)]
        for (turns, balanced), share in zip(ways, quoted[f"{drift:.1%}"], strict=True):
            assert agrees(coverage_turns(drift, turns, balanced, paths=1000), share, 1000)
    assert min(share for row in quoted.values() for share in row[:2]) > 0.94


def test_a_fresh_process_that_waited_serves_both_sides_in_turns(context, monkeypatch):
    document = stage_input("verify")
    plan = plan_of(document)
    monkeypatch.setattr(processes, "copies_beside", lambda reserved: 1)
    further = processes.FurtherProcesses(document, Context(context.model_dir, context.artifacts, seconds=600))
    further.get_ready(plan, processes.MAX_PAIRS, 0)
    further.wait_until_ready()
    assert further.context.starts_and_loads > 0
    (waiting,) = further._waiting
    outcome = waiting.measure(300.0)
    assert isinstance(outcome, Result), outcome
    assert len(outcome.before) == len(outcome.after) == processes.MAX_PAIRS
    assert all(len(value.times_ns) == 8 for value in (*outcome.before, *outcome.after))
    assert 0 < outcome.starts_and_loads < outcome.ready_seconds
    starts = [item.start_ns for item in outcome.before]
    assert starts == sorted(starts)
    assert (outcome.served_ids.tokens, outcome.served_ids.acceptable) == (8 * processes.MAX_PAIRS, True)
    assert outcome.refusal == ""


def test_a_process_that_takes_too_long_is_named_and_none_is_started_where_time_is_short(context):
    document = stage_input("verify")
    plan = plan_of(document)

    def measured(within: Context, seconds: float) -> processes.ProcessRuns:
        """The result of no process is clear."""
        return processes.FurtherProcesses(document, within).measure(plan, seconds, 10, lambda alternations: False)

    assert measured(context, 20.0) == processes.ProcessRuns()
    assert not list(context.artifacts.iterdir())
    runs = measured(Context(context.model_dir, context.artifacts, seconds=0.1), 0.04)
    assert runs.alternations == []
    assert runs.failure == "Process 2 did not end within 0 s."


class PreparedProcess:
    """A process of which it is given whether it gets ready."""

    def __init__(self, ready: bool, log: list[str]) -> None:
        self.process, self._ready, self._log = self, ready, log

    def is_ready(self, seconds: float) -> bool:
        return self._ready

    def measure(self, seconds: float) -> Result:
        self._log.append("waited" if self._ready else "new")
        return Result(environment=ENVIRONMENT, starts_and_loads=1.5, before=served(200, 3), after=served(20, 3))

    def close(self) -> None:
        self._log.append("closed")


def test_one_that_does_not_get_ready_is_replaced_and_those_of_another_plan_are_ended(context, monkeypatch):
    """The second of three lacks memory. Processes that are started for their turn are not ready ahead."""
    document, log, ready = stage_input("verify"), list[str](), iter([True, False, True, False, True, True, False])
    monkeypatch.setattr(processes, "copies_beside", lambda reserved: 8)
    monkeypatch.setattr(processes, "MeasuringProcess", lambda *_: PreparedProcess(next(ready, False), log))
    plan = plan_of(document)
    further = processes.FurtherProcesses(document, context)
    further.get_ready(plan, 3, 0)
    further.wait_until_ready()
    runs = further.measure(plan, 1.0, 3, lambda served: True)
    assert (len(runs.alternations), log) == (3, ["closed", "waited", "waited", "new"])
    assert 1.5 < context.starts_and_loads < 3, "of those that got ready beside other work the wait alone counts"
    log.clear()
    further.get_ready(plan, 3, 0)
    further.measure(plan.model_copy(update={"dtype": "bf16"}), 1.0, 3, lambda served: True)
    assert log == ["closed"] * 3 + ["new"] * 3
