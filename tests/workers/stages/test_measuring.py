"""Admit, baseline and verify of a tiny model, eager on both sides."""

import math
import os

import pytest

from kernels.runners.whole_model import rebuild_spread
from tests.kernels.model_folders import safetensors, weights_of
from tests.rival_programs import rival_programs
from tests.workers.conftest import ENVIRONMENT, TINY, composed_with, context_of, manifest, plan_of, stage_input
from workers.documents import measurement
from workers.documents.measurement import Telemetry
from workers.documents.model import ModelFile
from workers.documents.stages import ComposeResult, PlanTrial, Results, StageInput
from workers.harness.context import Context, StageError
from workers.measuring import alternation
from workers.planning import confirmation, verification
from workers.planning.verdict_words import busy_share
from workers.stages import admit, baseline, price, verify


def with_plan(document: StageInput, **changes) -> StageInput:
    return composed_with(plan_of(document, **changes), document)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The results of admit, baseline, verify and price, in that order, of one run."""
    context, results = context_of(TINY, tmp_path_factory.mktemp("run")), Results()
    for name, stage in (("admit", admit), ("baseline", baseline), ("verify", verify), ("price", price)):
        document = stage_input(name, results=results)
        setattr(results, name, stage.run(with_plan(document) if name == "verify" else document, context))
    return results


def test_each_stage_of_a_run_states_what_it_measured(measured):
    assert measured.admit.kind == "decoder"
    assert measured.admit.dtype == "fp32"
    assert measured.admit.kv_bytes_per_token == 2 * 2 * 16 * 4
    assert measured.admit.classes[0].feasible
    first = measured.baseline.distributions[0]
    assert (first.metric, first.n, first.unit) == ("ttf_n", 8, "ms")
    assert len(first.samples) == measured.baseline.requests >= 20
    assert measured.baseline.environment.gpu_class == "cpu"
    assert measured.baseline.environment.versions["torch"]
    assert measured.baseline.tokens_per_second > 0
    result = measured.verify
    assert result.verdict == "met"
    assert result.outcomes[0].samples >= result.outcomes[0].needed >= 8
    assert result.plan["expected"]["low"] <= result.plan["expected"]["value"] <= result.plan["expected"]["high"]
    assert result.plan["expected"]["metric"] == "ttf_n"
    assert "SLA is met" in result.sentence
    judged = result.quality
    assert judged.called == "numerical fidelity"
    assert judged.tokens >= 4096
    assert judged.acceptable
    assert judged.top1_after == judged.top1_before == 0.0
    assert judged.perplexity_after is None
    assert measured.price.lines[1].usd_per_mtok > 0
    assert measured.price.lines[1].price_basis == "modelled"


@pytest.mark.parametrize(
    ("value", "said"),
    [(b"\xff\xff", "logits are not finite numbers"), (b"\x00\x00", "gives every token the same logit")],
)
def test_weights_that_nothing_can_be_judged_with_are_refused_before_anything_is_measured(context, value, said):
    tensors = weights_of(TINY).items()
    file = safetensors({name: (dtype, shape, value * (len(data) // 2)) for name, (dtype, shape, data) in tensors})
    (context.model_dir / "model.safetensors").write_bytes(file)
    facts = ModelFile(path="model.safetensors", sha256="0" * 64, size=len(file))
    with pytest.raises(StageError) as refused:
        baseline.run(stage_input("baseline", manifest(TINY, generated=False, files=(facts,))), context)
    failure = refused.value.failure
    assert said in failure.sentence
    assert (failure.refused, failure.field) == (True, "model")


@pytest.mark.parametrize(
    ("busy", "far", "verdict"),
    [
        (1.1, confirmation.FAR, "missed"),
        (measurement.BUSY, math.inf, "not_enough_samples"),
        (measurement.BUSY, confirmation.FAR, "missed"),
    ],
    ids=["idle", "busy", "busy, far beyond the limit"],
)
def test_a_tight_limit_is_missed_unless_the_cpu_is_busy(context, monkeypatch, busy, far, verdict):
    monkeypatch.setattr(measurement, "BUSY", busy)
    monkeypatch.setattr(confirmation, "FAR", far)
    monkeypatch.setattr(alternation, "MIN_SECONDS", 1.0)
    warmed = []
    warm = alternation.warm_clients
    monkeypatch.setattr(verification, "warm_clients", lambda *facts: warmed.append(facts) or warm(*facts))
    objectives = [{"metric": "ttft", "limit": 0.001}, {"metric": "throughput", "limit": 1}]
    document = stage_input("verify", objectives=objectives)
    with rival_programs(((os.cpu_count() or 1) + 1) // 2 if busy < 1 else 0):
        result = verify.run(with_plan(document), context)
    assert len(warmed) == 1, "what runs today was measured beside itself"
    assert result.verdict == verdict
    assert [outcome.verdict for outcome in result.outcomes] == [verdict, "met"]
    assert result.goodput_after == 0.0
    assert ("decides nothing" in result.sentence) == ("machine was busy" in result.sentence) == (verdict != "missed")


def test_a_machine_that_was_busy_while_plans_were_tried_decides_no_miss():
    def beside(share):
        facts = {"telemetry": Telemetry(others_cpu_share=share)}
        return ComposeResult(environment=ENVIRONMENT.model_copy(update=facts), trials=[], plan={})

    calm = ENVIRONMENT.model_copy(update={"telemetry": Telemetry(others_cpu_share=0.1)})
    assert busy_share(Results(compose=beside(0.61)), calm) == 0.61
    assert busy_share(Results(compose=beside(0.05)), calm) is None
    assert busy_share(Results(compose=beside(None)), calm.with_busiest([Telemetry(others_cpu_share=0.3)])) == 0.3


def test_a_plan_of_another_model_is_not_verified(context):
    document = with_plan(stage_input("verify"), model_digest="f" * 64)
    with pytest.raises(StageError, match="plan is of the model ffffffffffff"):
        verify.run(document, context)
    tuned = {"inductor": {"coordinate_descent_tuning": True}}
    assert rebuild_spread(tuned) == rebuild_spread({"mode": "max-autotune"}) > rebuild_spread({}) > 0


def test_a_stage_without_time_stops_after_the_least_it_needs(context, monkeypatch):
    monkeypatch.setattr(alternation, "MIN_SECONDS", 0.0)
    strict = {"objectives": [{"metric": "e2e", "percentile": 99, "limit": 10_000}]}
    late = Context(context.model_dir, context.artifacts, seconds=0)
    document = with_plan(stage_input("verify", **strict))
    untried = {"label": "compiled", "plan": {}, "unit": "ms", "gate": "refused", "skipped": "time"}
    document.results.compose.trials.append(PlanTrial(**untried, seconds_wanted=60.0))
    result = verify.run(document, late)
    assert result.verdict == "not_enough_samples"
    assert result.minutes_wanted > 1, "nothing is predicted of the plan that time was short for, so it may be faster"
    assert result.outcomes[0].samples == alternation.MIN_PAIRS
    assert result.outcomes[0].needed >= 514
    assert f" {result.outcomes[0].needed:,} requests or more" in result.sentence
    assert "; there are 9." in result.sentence
    assert result.quality.tokens >= 4096
    assert baseline.run(stage_input("baseline", **strict), late).requests == 2
    later = Context(context.model_dir, context.artifacts, seconds=-alternation.LATEST_SECONDS)
    hurried = verify.run(with_plan(stage_input("verify", **strict)), later)
    assert hurried.outcomes[0].samples == alternation.MIN_SLOW_PAIRS
    assert (hurried.verdict, hurried.quality, hurried.served_ids) == ("not_enough_samples", None, None)


@pytest.mark.parametrize(
    ("gpu_class", "done", "seconds", "seconds_left", "enough"),
    [
        ("h200", 2, 5, 300, True), ("h200", 1, 30, 300, False), ("h200", 20, 3, 300, False), ("h200", 2, 3, 0, True),
        ("cpu", 2, 5, 300, False), ("cpu", 6, 5, 300, True), ("cpu", 3, 19, 300, True), ("cpu", 2, 9, 0, True),
    ],
)  # fmt: skip
def test_slow_requests_are_asked_six_times_on_a_cpu_while_there_is_time(gpu_class, done, seconds, seconds_left, enough):
    minutes = {"gpu_classes": [gpu_class], "minutes": 6}
    document = stage_input("baseline", gpu_class=gpu_class, constraints=minutes)
    assert baseline.has_enough(document, done, seconds, seconds_left) == enough
