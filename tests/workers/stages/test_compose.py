"""Compose on a tiny model, on the CPU: whole-model plans, parts that won put in, and why each was taken or not."""

import time

import pytest

from kernels import registry
from kernels.model.decoder import Decoder
from kernels.model.loading import skeleton
from kernels.model.prompts import bucket
from kernels.ops import LinearCase
from kernels.plan import Plan
from kernels.runners import by_name
from kernels.runners.kernels_runner import KernelsRunner
from kernels.runners.whole_model import WholeModel
from tests.kernels import planted
from tests.workers.conftest import ENVIRONMENT, TINY, candidate, manifest, stage_input
from workers.documents.measurement import Candidate, Ceilings, Interval
from workers.documents.stages import ExploreResult, PlanTrial, Results
from workers.planning import kernels_plan, trials
from workers.planning.precision import lowers_precision
from workers.planning.trial_order import MIN_MEASURING_SECONDS, TrialOrder
from workers.stages import compose
from workers.stats.verdicts import needed_requests

CEILINGS = Ceilings(read_tbps=0.01, copy_tbps=0.01, matrix_tflops={"fp32": 0.1}, launch_us=1)


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path, context):
    """As many requests of each plan as its verdict takes; a cache of its own, and no C++ compiler for Inductor."""
    monkeypatch.setenv("KERNELS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(compose, "MEASURE_SECONDS", 0.3)
    for rounds in ("MIN_ROUNDS", "ENOUGH_ROUNDS"):
        monkeypatch.setattr(trials, rounds, needed_requests(50))
    monkeypatch.setattr(context, "_deadline", context._deadline + 600)
    monkeypatch.setattr("kernels.torch_compiled.shutil.which", lambda name: None)


def composed(context, candidates, before=(), **sla):
    explored = ExploreResult(environment=ENVIRONMENT, ceilings=CEILINGS, candidates=candidates)
    document = stage_input("compose", results=Results(explore=explored), **sla)
    return compose.run(document.model_copy(update={"trials_before": list(before)}), context)


def by_label(result):
    return {trial.label: trial for trial in result.trials}


ALLOWED = {"precisions": ["fp32", "int8"], "allow_unverified_quality": True}


def test_whole_models_and_parts_are_tried_and_explained(context):
    messages = []
    context._listener = messages.append
    candidates = [candidate("torch_linear", 2.0), candidate("int8_dynamic_cpu", 1.0, "int8")]
    result = composed(context, candidates, constraints=ALLOWED)
    labelled = by_label(result)
    assert labelled["eager"].gate == "pass"
    # On a busy machine requests that follow each other are alike, and count as fewer.
    assert labelled["eager"].keeps in ("met", "not_enough_samples")
    assert labelled["eager"].primary.low <= labelled["eager"].primary.value <= labelled["eager"].primary.high
    assert labelled["cuda_graphs"].gate == "refused"
    assert "C++ compiler" in labelled["compiled"].reason
    assert all(trial.reason for trial in result.trials)
    assert sum(trial.chosen for trial in result.trials) == 1
    with_int8 = labelled["eager + int8_dynamic_cpu"]
    assert with_int8.gate == "pass"
    assert with_int8.primary is not None
    plan = Plan.model_validate(with_int8.plan)
    assert plan.model_digest == manifest(TINY).digest
    (op,) = plan.ops
    assert (op.variant, op.evidence_id, op.case["weights"]) == ("int8_dynamic_cpu", "int8_dynamic_cpu-int8-1", "int8")
    assert Plan.model_validate(result.plan).runner == "eager"
    assert [line.partial for line in messages if line.partial][-1]["eager"].endswith(" ms")


def test_lower_precision_of_the_whole_model_is_tried_where_allowed(context, monkeypatch):
    compared, real = [], compose.reference_of
    monkeypatch.setattr(compose, "reference_of", lambda *args: compared.append(args[-1]) or real(*args))
    allowed = ALLOWED | {"precisions": ["fp32", "bf16"]}
    trial = by_label(composed(context, [], constraints=allowed))["eager in bf16"]
    assert (trial.gate, trial.plan["dtype"]) == ("pass", "bf16")
    assert compared == [0, compose.COMPARED_TOKENS], "more tokens once a plan of lower precision is tried"
    strict = stage_input("compose", constraints={"precisions": ["fp32", "bf16"]})
    assert compose._Composer(strict, context)._lower_dtype() is None
    context._deadline = time.monotonic()
    late = by_label(composed(context, [], constraints=allowed))["eager in bf16"]
    assert (late.gate, late.skipped) == ("refused", "time")
    assert late.seconds_wanted == pytest.approx(MIN_MEASURING_SECONDS, abs=0.4)
    assert late.reason.endswith("take about 4 s and 0 s were left.")


def test_plans_that_an_earlier_run_measured_or_the_workload_excludes_are_not_tried(context):
    plan = Plan(model_digest=manifest(TINY).digest, gpu="cpu", runner="compiled", dtype="fp32").model_dump()
    primary = Interval(value=9, low=9, high=9)
    measured = PlanTrial(label="compiled", plan=plan, primary=primary, gate="pass")
    excluded = {"exclude": ["kernels", "megakernel", "eager"]}
    labelled = by_label(composed(context, [], before=[measured], constraints=excluded))
    assert labelled["kernels"].reason == labelled["megakernel"].reason == "The workload excludes it."
    assert (labelled["kernels"].gate, labelled["eager"].gate) == ("refused", "pass"), "today's plan has a figure"
    again = labelled["compiled"]
    assert again.primary == primary, "no C++ compiler is there to measure it"
    assert again.reason.endswith("Measured by the run whose search this one resumes.")
    document = stage_input("compose")
    for change in ({"plan": plan | {"dtype": "bf16"}}, {"gate": "fail", "primary": None}, {"primary": None}):
        document.trials_before = [measured.model_copy(update=change)]
        assert compose._Composer(document, context)._measured_before(["compiled"]) == {}, change
    document.trials_before = [measured.model_copy(update={"gate": "fail", "reason": "Verify refused it."})]
    refused = compose._Composer(document, context)._measured_before(["compiled"])["compiled"]
    assert (refused.gate, refused.reason) == ("fail", "Verify refused it.")


@pytest.fixture
def composing(monkeypatch):
    """A kernels plan on the CPU, where the workbench itself makes none."""
    monkeypatch.setattr(kernels_plan, "composes", lambda document, model: True)
    monkeypatch.setattr(registry.variant("kernels"), "serves", lambda case, gpu: None)


def kernels_candidates():
    cases = kernels_plan.layer_ops(stage_input("compose"), Decoder(skeleton(TINY, "fp32"))).cases()
    names = {"linear": "torch_linear", "attention": "sdpa_math", "step_attention": "torch_step_attention"}
    names |= {"rmsnorm": "torch_rmsnorm", "gated": "torch_gated", "lm_head": "torch_lm_head"}
    fused = ("residual", "rmsnorm_scale")
    result = []
    for case in (item for item in cases if item.op in names):
        ms = 0.1 if case.op == "rmsnorm" else 1.0 if getattr(case, "epilogue", "") in fused else 2.0
        facts = {"id": case.key, "op": case.op, "case": case.model_dump(), "variant": names[case.op]}
        result.append(Candidate(gate="pass", ms=ms, ms_low=ms, ms_high=ms, **facts))
    return result


def test_a_plan_is_composed_of_what_was_explored(context, composing, monkeypatch):
    monkeypatch.setattr(compose.TrialOrder, "predicted", lambda *_: 1.25)
    sentences = []
    context._listener = sentences.append
    result = composed(context, kernels_candidates())
    trial = next(item for item in result.trials if item.label.startswith("kernels"))
    assert trial.gate == "pass", trial.reason
    assert trial.build_seconds is not None
    plan = Plan.model_validate(trial.plan)
    assert plan.runner == "kernels"
    assert all(op.evidence_id for op in plan.ops)
    assert {op.op for op in plan.ops} >= {"linear", "attention", "step_attention", "lm_head"}
    assert {op.case["epilogue"] for op in plan.ops if op.op == "linear"} >= {"residual", "rmsnorm_scale"}
    assert not any("+" in item.label for item in result.trials)
    (predicted,) = [line.message for line in sentences if "predicted" in line.message]
    assert trial.label in predicted
    assert "1.25 ms" in predicted


class PlantedMegakernel(WholeModel):
    """In place of the megakernel, which needs a GPU."""

    name, runner_name = "megakernel", "megakernel"
    summary = "planted"


def test_a_megakernels_prompts_are_those_of_the_kernels_plan(context, composing, monkeypatch):
    registry.variants()
    monkeypatch.setitem(registry._variants, "megakernel", PlantedMegakernel())
    monkeypatch.setitem(by_name.RUNNERS, "megakernel", "kernels.runners.kernels_runner.KernelsRunner")
    chosen = []
    real = kernels_plan.choose_ops
    monkeypatch.setattr(kernels_plan, "choose_ops", lambda *args: chosen.append(args) or real(*args))
    result = {trial.label.split(":")[0]: trial for trial in composed(context, kernels_candidates()).trials}
    assert result["megakernel"].gate == "pass", result["megakernel"].reason
    mega, whole = (Plan.model_validate(result[name].plan).ops for name in ("megakernel", "kernels"))
    queries = bucket(stage_input("compose").workload.traffic.prompt_tokens)
    assert mega
    assert all(op in whole and op.evidence_id for op in mega)
    assert {op.case.get("q_len") or op.case["m"] for op in mega if op.op != "lm_head"} == {queries}
    assert [lower for *_, lower in chosen].count(()) == 1


class Endless(KernelsRunner):
    """A runner whose build has no end."""

    def prepare(self, batch, prompt, tokens):
        while True:
            time.sleep(0.01)


def test_a_build_is_ended_when_the_stages_time_is_over(context, monkeypatch):
    registry.variants()
    monkeypatch.setitem(registry._variants, "megakernel", PlantedMegakernel())
    monkeypatch.setitem(by_name.RUNNERS, "megakernel", f"{__name__}.Endless")
    monkeypatch.setattr(compose, "GRACE_SECONDS", 0.5)

    def nearly_over(*args):
        monkeypatch.setattr(context, "_deadline", time.monotonic() + 1)
        return []

    monkeypatch.setattr(kernels_plan, "prompt_ops", nearly_over)  # it is asked for just before the build
    trial = by_label(composed(context, [], constraints={"strict_minutes": True}))["megakernel"]
    assert context.seconds_left > -60
    assert (trial.gate, trial.primary) == ("error", None)
    assert trial.skipped == "time"
    assert trial.reason.startswith("Not measured: building was ended after ")


@pytest.mark.parametrize(("strict", "skipped"), [(False, None), (True, "time")])
def test_the_first_plan_without_a_prediction_has_overtime_unless_the_minutes_are_strict(
    context, monkeypatch, strict, skipped
):
    slow = PlantedMegakernel()
    monkeypatch.setattr(slow, "build_seconds", 120.0, raising=False)
    registry.variants()
    monkeypatch.setitem(registry._variants, "megakernel", slow)
    monkeypatch.setitem(by_name.RUNNERS, "megakernel", "kernels.runners.kernels_runner.KernelsRunner")
    monkeypatch.setattr(context, "_deadline", time.monotonic())
    sla = {"objectives": [{"metric": "e2e", "limit": 0.001}], "constraints": {"strict_minutes": strict}}
    trial = by_label(composed(context, [], **sla))["megakernel"]
    assert (trial.predicted, trial.skipped) == (None, skipped)
    assert (trial.gate == "pass") != strict, trial.reason


def test_a_megakernels_prompts_are_the_usual_ones_where_nothing_was_explored():
    document = stage_input("compose", constraints={"exclude": ["kernels", "torch_gated"]})
    ops = kernels_plan.prompt_ops(document, skeleton(TINY, "fp32"), [])
    assert {op.op for op in ops} >= {"linear", "rmsnorm", "attention", "lm_head"}
    assert not any(op.variant == "torch_gated" for op in ops)


def test_lower_precision_makes_a_kernels_plan_of_its_own(context, composing):
    down = LinearCase(m=1, n=64, k=128, dtype="fp32", weights="fp32")
    cheap = candidate("int8_dynamic_cpu", 0.01, "int8", case=down)
    result = composed(context, [*kernels_candidates(), cheap], constraints=ALLOWED)
    trial = by_label(result)["kernels_int8"]
    assert trial.gate == "pass", trial.reason
    assert trial.summary.endswith("; products by int8_dynamic_cpu.")
    used = [op for op in Plan.model_validate(trial.plan).ops if op.variant == "int8_dynamic_cpu"]
    assert [op.case["weights"] for op in used] == ["int8"]
    exact = by_label(result)["kernels"]
    assert not any(op["variant"] == "int8_dynamic_cpu" for op in exact.plan["ops"])


class PlantedRounded(WholeModel):
    """A whole model of lower precision that runs anywhere."""

    name, runner_name = "planted_rounded", "eager"
    summary = "planted"
    lossy = True
    options = {"weights": "fp8"}


def test_a_whole_model_of_lower_precision_is_tried_where_allowed(context, monkeypatch):
    registry.variants()
    monkeypatch.setitem(registry._variants, "planted_rounded", PlantedRounded())
    compared = []
    monkeypatch.setattr(trials, "token_fidelity", lambda known, own, *args: compared.append(own.shape) or ("pass", ""))
    allowed = {"precisions": ["fp32", "fp8"], "allow_unverified_quality": True}
    for changes, said in (
        ({"precisions": ["fp32", "int8"]}, "not among the precisions"),
        ({"allow_unverified_quality": False}, "does not say allow_unverified_quality"),
    ):
        order = TrialOrder(stage_input("compose", constraints=allowed | changes))
        assert said in order.refusal(order.candidate(registry.variant("planted_rounded")))
    trial = by_label(composed(context, [], constraints=allowed))["planted_rounded"]
    assert (trial.gate, trial.plan["options"]) == ("pass", {"weights": "fp8"})
    assert [shape[0] * shape[1] >= compose.COMPARED_TOKENS for shape in compared] == [True]
    plan = Plan.model_validate(trial.plan)
    assert lowers_precision(plan, "fp32")
    assert lowers_precision(plan.model_copy(update={"options": {}}), "bf16")
    assert not lowers_precision(plan.model_copy(update={"options": {}}), "fp32")


def test_a_checkpoint_that_has_a_matrix_in_16_bits_is_not_tried_in_its_fp8(context, monkeypatch):
    """Here none has the scales of one: such a plan would round it."""
    registry.variants()
    monkeypatch.setitem(registry._variants, "planted_rounded", PlantedRounded())
    stored = TINY | {"dequantised_from": {"quant_method": "fbgemm_fp8"}}
    trial = by_label(composed(context, [], model=manifest(stored), constraints=ALLOWED))["planted_rounded"]
    assert trial.gate == "refused"
    assert trial.reason.startswith("Not every matrix of its layers was stored in fp8")


def test_parts_that_spoil_the_model_or_cannot_run_are_refused(context, monkeypatch):
    class Backwards(planted.Planted):
        name = "planted_backwards"

        def call(self, x, w, bias=None, residual=None):
            return -3 * super().call(x, w, bias)

    registry.variants()
    for name, part, gate, said in (
        ("planted_backwards", Backwards(), "fail", "Its logits differ from the model's by "),
        ("planted_raises", planted.Raises(), "error", "It could not run: no kernel image is available (RuntimeError)"),
    ):
        monkeypatch.setitem(registry._variants, name, part)
        result = composed(context, [candidate("torch_linear", 2.0), candidate(name, 1.0)])
        trial = next(item for item in result.trials if name in item.label)
        assert trial.gate == gate
        assert trial.reason.startswith(said)
        assert next(item for item in result.trials if item.chosen).label == "eager"
