"""Verify recommends a plan only when it confirms it; else the next best is verified, then what runs today stands."""

import re
import time
from types import SimpleNamespace

import pytest

from kernels.plan import Plan
from kernels.runners import by_name, served_answers
from kernels.runners.eager import EagerRunner
from tests.workers.conftest import ENVIRONMENT, leaping_clock, plan_of, stage_input
from tests.workers.measuring.test_outcomes import served
from workers.charts import plans
from workers.documents.measurement import Interval, ServedIds
from workers.documents.stages import ComposeResult, PlanTrial, Results, StageInput, VerifyResult
from workers.harness.context import Context
from workers.measuring import alternation
from workers.measuring.alternation import Alternation
from workers.planning import confirmation, processes
from workers.planning.confirmation import PlanMeasurement, plans_to_verify
from workers.planning.fresh_process import Result, VerifyTask
from workers.planning.processes import ENOUGH_PROCESSES
from workers.stages import verify
from workers.stages.price import price

STRICT = {"gpu_classes": ["cpu"], "precisions": ["fp32", "bf16"], "max_quality_loss": 0.001}
"""bf16 changes 1.8 % of the tokens; two models in float32 may differ by rounding, as threads divide the work."""


class SlowRunner(EagerRunner):
    """The eager runner after a pause, in seconds."""

    PAUSE = 0.15
    sleep = staticmethod(time.sleep)

    def __init__(self, model, options=None, ops=None) -> None:
        super().__init__(model, options)

    def generate(self, *args, **kwargs):
        self.sleep(self.PAUSE)
        return super().generate(*args, **kwargs)


class HalfAsSlowRunner(SlowRunner):
    """The eager runner after half the pause."""

    PAUSE = SlowRunner.PAUSE / 2


def slow_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runners `compiled`, of today, and `megakernel`, of plans, pause: the clock leaps and no time is taken."""
    monkeypatch.setattr(SlowRunner, "sleep", staticmethod(leaping_clock(monkeypatch)))
    monkeypatch.setattr(SlowRunner, "PAUSE", 0.6)
    monkeypatch.setattr(HalfAsSlowRunner, "PAUSE", 0.3)
    monkeypatch.setitem(by_name.RUNNERS, "compiled", f"{__name__}.SlowRunner")
    monkeypatch.setitem(by_name.RUNNERS, "megakernel", f"{__name__}.SlowRunner")
    monkeypatch.setattr(alternation, "MIN_SECONDS", 0.0)
    monkeypatch.setattr(served_answers, "MAX_LATE_S", 0.5)


@pytest.fixture(autouse=True)
def slow_runners(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_down(monkeypatch)


def further_process(result: Result) -> SimpleNamespace:
    ready = SimpleNamespace(is_ready=lambda seconds: True, close=lambda: None)
    return SimpleNamespace(process=ready, measure=lambda seconds: result)


def document_of(chosen: int, *trials: tuple[str, str, float], **sla) -> StageInput:
    """A composed run; `trials` are (runner, dtype, quick milliseconds), the first of them what runs today."""
    document = stage_input("verify", **{"baseline_runner": trials[0][0]} | sla)
    made = []
    for index, (runner, dtype, ms) in enumerate(trials):
        plan = plan_of(document, runner=runner, dtype=dtype).model_dump()
        primary = Interval(value=ms, low=ms, high=ms)
        label = f"{runner} in {dtype}"
        made.append(PlanTrial(label=label, plan=plan, primary=primary, gate="pass", chosen=index == chosen))
    document.results.compose = ComposeResult(environment=ENVIRONMENT, trials=made, plan=made[chosen].plan)
    return document


def verified(document: StageInput, context: Context, seconds: float = 60) -> tuple[VerifyResult, Results]:
    result = verify.run(document, Context(context.model_dir, context.artifacts, seconds=seconds))
    return result, document.results.model_copy(update={"verify": result})


def confirmed(found: VerifyResult) -> dict[str, bool]:
    return {check.label: check.confirmed for check in found.checks}


def test_a_plan_that_verify_finds_slower_gives_way_to_what_runs_today(context):
    result, results = verified(document_of(1, ("eager", "fp32", 100), ("megakernel", "fp32", 2)), context)
    assert not result.recommended
    assert result.plan["runner"] == "eager"
    assert result.speedup is None
    assert result.checks[0].speedup.ratio.value < 1
    assert re.search(r"With what runs today the SLA is .* No change is recommended. “megakernel in", result.sentence)
    assert result.outcomes[0].before == result.outcomes[0].after
    assert plans.chosen_trial(results).label == "eager in fp32"
    assert "50.00x" not in plans.why(results)
    slower = next(trial for trial in plans.rank_trials(results) if trial.label == "megakernel in fp32")
    assert slower.reason.startswith("Not confirmed by verify. ")


def test_the_same_plan_before_and_after_has_no_ratio(context):
    document, words = document_of(0, ("eager", "fp32", 20), baseline_runner="vllm", load={}), "generate of transformers"
    result, _ = verified(document, context)
    assert not result.recommended
    assert result.speedup is None
    assert result.checks[0].speedup is None
    assert f"faster than {words}." in result.sentence
    assert f"With {words} the SLA is " in result.sentence
    priced = price(document.workload, document.prices, "cpu", result, document.model)
    assert priced.before_after_ratio is None
    assert "tokens per dollar" not in priced.sentence


def test_where_quality_rejects_a_plan_the_next_best_is_verified(context):
    trials = [("compiled", "fp32", 200), ("eager", "bf16", 10), ("eager", "fp32", 20)]
    result, results = verified(document_of(1, *trials, constraints=STRICT), context, seconds=240)
    assert confirmed(result) == {"eager in bf16": False, "eager in fp32": True}
    assert "not acceptable" in result.checks[0].reason
    assert result.recommended
    assert result.plan["dtype"] == "fp32"
    assert result.quality.acceptable
    assert result.verdict == "met"
    assert plans.chosen_trial(results).label == "eager in fp32"


@pytest.fixture
def cheap(monkeypatch) -> StageInput:
    """The composed plan is the cheapest, and too slow for the promise that another one keeps."""
    monkeypatch.setitem(by_name.RUNNERS, "megakernel", f"{__name__}.HalfAsSlowRunner")
    trials = [("compiled", "fp32", 400), ("megakernel", "fp32", 90), ("eager", "fp32", 20)]
    document = document_of(1, *trials, objectives=[{"metric": "ttf_n", "n": 8, "limit": 280}])
    document.results.compose.choice = "megakernel is the cheapest of 2 plans."
    return document


def test_a_cheap_plan_that_does_not_keep_the_promise_gives_way_to_a_faster_one(context, cheap):
    result, results = verified(cheap, context, seconds=240)
    assert result.verdict == "met"
    assert result.plan["runner"] == "eager"
    assert confirmed(result) == {"megakernel in fp32": False, "eager in fp32": True}
    assert "eager in fp32 stands instead" in result.checks[0].reason
    assert "cheapest" not in plans.why(results)


def test_where_further_processes_speak_against_a_plan_the_one_it_displaced_stands(context, monkeypatch, cheap):
    def process(name: str, task: VerifyTask, *args) -> SimpleNamespace:
        wrong = "Wrong ids." if task.plan.runner == "eager" else ""
        sides = {"before": served(600, 10, 8), "after": served(310, 10, 8)}
        return further_process(Result(environment=ENVIRONMENT, refusal=wrong, **sides))

    monkeypatch.setattr(processes, "MeasuringProcess", process)
    result = verify.run(cheap, Context(context.model_dir, context.artifacts, seconds=120, startup_seconds=1))
    assert result.recommended
    assert result.plan["runner"] == "megakernel"
    assert len(result.speedup.processes) == ENOUGH_PROCESSES
    assert confirmed(result) == {"eager in fp32": False, "megakernel in fp32": True}
    assert result.checks[0].reason == "The plan is refused. In process 2: Wrong ids."
    assert result.refusal == ""


def test_the_next_plans_to_verify_beat_todays_the_cheapest_that_keep_the_promise_first():
    def labels(document: StageInput) -> list[str]:
        return [label for label, _ in plans_to_verify(document, Plan.model_validate(document.results.compose.plan))]

    trials = [("eager", "fp32", 100), ("megakernel", "fp32", 50), ("compiled", "fp32", 20), ("compiled", "bf16", 30)]
    document = document_of(1, *trials)
    for trial, rate in zip(document.results.compose.trials, (100, 400, 300, 350), strict=True):
        trial.keeps, trial.tokens_per_second = "met", rate
    assert labels(document) == ["megakernel in fp32", "compiled in bf16", "compiled in fp32"]
    document.workload.constraints.prefer = "fastest"
    assert labels(document)[1:] == ["compiled in fp32", "compiled in bf16"]
    trials = [("eager", "fp32", 20), ("compiled", "bf16", 5), ("compiled", "fp32", 10), ("eager", "bf16", 21)]
    assert labels(document_of(1, *trials)) == ["compiled in bf16", "compiled in fp32"]


@pytest.mark.parametrize(
    ("skipped", "predicted", "verdict"),
    [("prediction", 30.0, "not_enough_samples"), ("prediction", 60.0, "missed"), (None, 30.0, "missed")],
)
def test_no_promise_is_missed_while_a_plan_that_was_not_tried_is_predicted_to_keep_it(skipped, predicted, verdict):
    document = document_of(1, ("eager", "fp32", 100), ("megakernel", "fp32", 20))
    document.workload.objectives[0].limit = 50.0
    trials = document.results.compose.trials
    refused = {"gate": "refused", "skipped": skipped, "predicted": predicted}
    trials.append(PlanTrial(label="kernels", plan=trials[0].plan, unit="ms", **refused))
    slow = served(1000, 30, 8)
    final = PlanMeasurement.of(
        "eager",
        Plan.model_validate(trials[0].plan),
        document,
        None,
        ENVIRONMENT,
        [Alternation(slow, slow)],
        ready_seconds=1.0,
    )
    assert verify._decide(document, [], final)[0] == verdict


FASTER = Alternation(served(2000, 10, 8), served(20, 10, 8))


def in_processes(document: StageInput, context: Context, monkeypatch, served: Alternation) -> VerifyResult:
    """The result where each further process served the requests of `served`."""
    judged = ServedIds(tokens=80, mean_gap=0.01, largest_gap=0.01, acceptable=True, sentence="")
    sides = {"before": served.before, "after": served.after}
    result = Result(environment=ENVIRONMENT, served_ids=judged, **sides)
    monkeypatch.setattr(processes, "MeasuringProcess", lambda *_: further_process(result))
    monkeypatch.setattr(SlowRunner, "PAUSE", 6.0)  # a busy machine makes the plan ten times as slow
    return verify.run(document, Context(context.model_dir, context.artifacts, seconds=1000, startup_seconds=5))


def test_a_confirmed_plan_is_measured_in_as_many_processes_as_fit(context, monkeypatch):
    document = document_of(1, ("compiled", "fp32", 200), ("eager", "fp32", 20))
    monkeypatch.setattr(confirmation, "CLEARLY_FASTER", 1000)
    result = in_processes(document, context, monkeypatch, FASTER)
    assert [process.pairs for process in result.speedup.processes][1:] == [10] * 5
    assert result.outcomes[0].requests == len(result.after[0].samples) >= 20 + 5 * 10
    assert len(result.before[0].samples) == sum(process.pairs for process in result.speedup.processes)
    assert "over 6 processes, 5 of them fresh)" in result.sentence
    assert result.recommended
    assert result.served_ids.tokens == 16 * 8 + 5 * 80
    assert "6 processes" in result.served_ids.sentence


def test_fewer_processes_of_a_slow_plan_have_as_many_pairs_together():
    slow, quick = (SimpleNamespace(further_pairs=value, process_seconds=lambda context: 10.0) for value in (2, 7))
    left = [SimpleNamespace(seconds_left=value) for value in (31, 29)]
    pairs = [confirmation.PlanMeasurement.pairs_in(value, context) for value in (slow, quick) for context in left]
    assert pairs == [2, 3, 7, 7]


def test_a_plan_that_further_processes_contradict_is_not_confirmed(context, monkeypatch):
    document = document_of(1, ("compiled", "fp32", 200), ("eager", "fp32", 20))
    result = in_processes(document, context, monkeypatch, Alternation(served(20, 10, 8), served(200, 10, 8)))
    assert not result.recommended
    assert result.speedup is None
    assert not result.checks[0].confirmed
    assert len(result.checks[0].speedup.processes) == 6
    assert (result.profile, result.no_profile) == (None, "")
    assert result.outcomes[0].before == result.outcomes[0].after
