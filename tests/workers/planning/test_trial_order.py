"""Which plan is tried first, which are left out, and what is said of those that time was too short for."""

from dataclasses import replace

import pytest

from kernels import registry
from kernels.model_files import catalogue
from kernels.ops import GroupedCase, LinearCase
from tests.workers.conftest import ENVIRONMENT, candidate, manifest, stage_input
from workers.documents.measurement import Ceilings, Environment, Interval, Rates
from workers.documents.stages import BaselineResult, ExploreResult, PlanTrial
from workers.documents.workload import Constraints, LoadSearch, Objective
from workers.planning.build_times import BuildTimes
from workers.planning.choosing import meets_objective, predicted_to_keep
from workers.planning.trial_order import (
    MIN_MEASURING_SECONDS,
    TrialOrder,
    leading_plan,
    minutes_wanted,
)
from workers.planning.verdict_words import left_out_words
from workers.prediction.precisions import lossy_refusal, stored_precision
from workers.prediction.predict import predict_run
from workers.stages import explore

H200 = {"bf16": 700.0, "fp16": 700.0, "fp32": 50.0, "fp8": 1300.0}
CEILINGS = Ceilings(
    read_tbps=4.4, copy_tbps=4.2, matrix_tflops=H200, launch_us=2.0,
    burst=Rates(read_tbps=4.4, copy_tbps=4.2, matrix_tflops=H200),
)  # fmt: skip
PROMISE = {"metric": "ttf_n", "n": 64, "limit": 60}
TRAFFIC = {"prompt_tokens": 128, "output_tokens": 64}


def document(stage="compose", objectives=(PROMISE,), gpu_class="h200", model="llama-3.2-1b", **constraints):
    sla = {"traffic": TRAFFIC, "objectives": list(objectives)}
    sla["constraints"] = {"gpu_classes": [gpu_class], **constraints}
    staged = stage_input(stage, manifest(catalogue.entry(model)[0]), gpu_class=gpu_class, **sla)
    return staged.model_copy(update={"ceilings": {"h200": CEILINGS}})


def trial(label, ms, runner, keeps="missed", gpus=1, **kwargs):
    plan = {"model_digest": "d", "gpu": "h200", "runner": runner, "dtype": "bf16", "tensor_parallel_size": gpus}
    primary = Interval(value=ms, low=0.99 * ms, high=1.01 * ms)
    return PlanTrial(label=label, plan=plan, primary=primary, gate="pass", keeps=keeps, **kwargs)


def tried_first(made, best=None):
    order = TrialOrder(made)
    candidates = [item for item in order.candidates() if not order.refusal(item)]
    return order.ranked(candidates, best)


def test_the_most_gain_for_a_second_comes_first_and_slow_builds_last():
    before = trial("eager", 700.0, "eager")
    labels = [item.label for item in tried_first(document(), before)]
    assert labels[0] == "megakernel"
    assert labels.index("kernels") < labels.index("compiled") < labels.index("compiled_max_autotune")


def test_int8_is_tried_by_default_and_first_where_quality_can_be_measured():
    made, before = document(), trial("eager", 700.0, "eager")
    refusals = {item.label: TrialOrder(made).refusal(item) for item in TrialOrder(made).candidates()}
    assert "weights are generated" in refusals["megakernel_int8"]
    made.model.generated = False
    labels = [item.label for item in tried_first(made, before)]
    assert labels[:2] == ["megakernel_int8", "megakernel"]
    assert "megakernel_fp8" not in labels
    assert leading_plan(made).label == "megakernel_int8"
    int8, bf16 = (TrialOrder(made).predicted(item.variant) for item in tried_first(made, before)[:2])
    assert 0.5 < int8 / bf16 < 0.75


def test_int8_that_gains_less_than_predictions_err_comes_last_and_not_where_the_promise_is_kept():
    given, before = document(model="smollm2-135m"), trial("eager", 2300.0, "eager")
    given.model.generated = False
    bf16, int8 = tried_first(given, before)[:2]
    assert (bf16.label, int8.label) == ("megakernel", "megakernel_int8")
    assert 0.9 < int8.predicted / bf16.predicted < 0.97
    order, reached = TrialOrder(given), trial("megakernel", bf16.predicted, "megakernel")
    assert order.why_not(int8, [before, reached], 3600) == ""
    keeping = reached.model_copy(update={"keeps": "met"})
    assert order.why_not(int8, [before, keeping], 3600).startswith("Not tried: ")


def test_measuring_a_plan_takes_as_long_as_its_requests_do():
    given = document()
    interval = Interval(value=40_000.0, low=39_000.0, high=41_000.0)
    measured = {"environment": ENVIRONMENT, "runner": "eager", "dtype": "bf16", "requests": 3, "distributions": []}
    given.results.baseline = BaselineResult(**measured, tokens_per_second=64 / 40, primary=interval)
    order = TrialOrder(given)
    assert order.measuring_seconds() == 4 * 40, "four batches, as long as today's"
    assert order.measuring_seconds(20_000.0) == 4 * 20
    assert order.measuring_seconds(40.0) == MIN_MEASURING_SECONDS
    slow = next(item for item in order.candidates() if item.label == "compiled")
    assert slow.seconds > order.measuring_seconds(slow.predicted) > 0


@pytest.mark.parametrize(
    ("quantised", "stored", "precisions", "first"),
    [
        ("GGUF (Q4_1, Q8_0, F32)", {}, None, "megakernel_int4"),
        ("AWQ (4 bits)", {"bits": 4}, None, "megakernel_int4"),
        ("GPTQ (4 bits)", {"desc_act": True}, None, "megakernel_int8"),
        ("GGUF (Q4_K, Q6_K)", {}, None, "megakernel_int8"),
        ("AWQ (4 bits)", {"bits": 4}, ["bf16"], "megakernel"),
    ],
)
def test_a_model_that_was_stored_in_four_bits_is_tried_in_them(quantised, stored, precisions, first):
    """Its codes are kept, so that nothing is lost; not where their groups are lost, or the workload wants more bits."""
    given = document(**({"precisions": precisions} if precisions else {}))
    changes = {"quantised": quantised, "config": given.model.config | {"dequantised_from": stored}}
    given.model = given.model.model_copy(update=changes | {"generated": False})
    assert tried_first(given, trial("eager", 700.0, "eager"))[0].label == first


def test_experts_that_were_stored_in_mxfp4_may_stay_in_it():
    """Where the workload allows int8, so that four bits that lose nothing need no word of their own."""
    given = document(model="gpt-oss-20b").model
    stored = given.model_copy(
        update={"generated": False, "config": given.config | {"dequantised_from": {"quant_method": "mxfp4"}}}
    )
    constraints = Constraints()
    assert stored_precision(constraints, stored) == ["mxfp4"]
    assert lossy_refusal("mxfp4", constraints, stored) == ""
    case = GroupedCase(rows=4, experts=32, n=2880, k=2880)
    assert [item.weights for item in explore.lossy_cases(case, constraints, stored)[0]] == ["int8", "mxfp4"]
    assert stored_precision(constraints, given) == []
    assert stored_precision(Constraints(precisions=["bf16"]), stored) == []
    assert [item.weights for item in explore.lossy_cases(case, constraints, given)[0]] == ["int8"]


def test_a_model_that_was_stored_in_rows_of_fp8_may_stay_in_it():
    """The kernels plan with its own codes: not with a norm folded in, not in the LM head. So has the megakernel."""
    given = document()
    stored = {"dequantised_from": {"quant_method": "modelopt", "quant_algo": "FP8"}}
    changes = {"generated": False, "config": given.model.config | stored, "quantised": "ModelOpt's FP8"}
    given.model = given.model.model_copy(update=changes)
    constraints, order = given.workload.constraints, TrialOrder(given)
    assert "fp8" not in constraints.precisions
    assert stored_precision(constraints, given.model) == ["fp8"]
    assert order.refusal(order.candidate(registry.variant("kernels_fp8"))) == ""
    assert order.refusal(order.candidate(registry.variant("megakernel_fp8"))) == ""

    def tried(**fields):
        case = LinearCase(**{"m": 8, "n": 4096, "k": 2048} | fields)
        return [item.weights for item in explore.lossy_cases(case, constraints, given.model)[0]]

    assert tried() == tried(epilogue="residual") == ["int8", "fp8"]
    assert tried(epilogue="rmsnorm_scale") == tried(n=given.model.config["vocab_size"]) == ["int8"]
    assert "a plan may keep their codes" in given.model.dequantised_sentence
    blocks = {"dequantised_from": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
    other = given.model.model_copy(update={"config": given.model.config | blocks})
    assert stored_precision(constraints, other) == []


def test_a_server_is_predicted_to_multiply_by_int8_with_few_users_alone():
    made = document()
    made.model.generated = False
    sla = made.workload.model_copy(update={"load": LoadSearch(most_users=32)})
    plans = {plan.weights: plan for plan in predict_run(sla, made.model, "h200", {}).plans if plan.runner == "kernels"}

    def rate(weights, users):
        return next(figure.value for figure in plans[weights].figures if figure.users == users)

    assert rate("int8", 8) > 1.1 * rate("bf16", 8)
    assert rate("int8", 32) == rate("bf16", 32)


def test_a_plan_that_is_predicted_to_be_slower_than_a_measured_one_is_not_tried():
    made = document()
    order = TrialOrder(made)
    by_label = {item.label: item for item in order.candidates()}
    tried = [trial("eager", 700.0, "eager"), trial("megakernel", 37.5, "megakernel", keeps="met")]
    text = order.why_not(by_label["compiled"], tried, 3600)
    assert text.startswith("Not tried: ")
    assert text.endswith("are predicted, and megakernel was measured with 37.5 ms.")
    assert order.why_not(by_label["megakernel"], tried[:1], 3600) == ""
    lossy = replace(by_label["megakernel_int8"], predicted=35.0)
    assert order.why_not(lossy, tried, 3600).endswith(
        "37.5 ms. A lower precision is tried for a gain of more than 10 %."
    )
    assert order.why_not(replace(lossy, predicted=33.0), tried, 3600) == ""
    slow = [tried[0], trial("megakernel", 90.0, "megakernel")]
    assert order.why_not(by_label["kernels"], slow, 3600) == "", "the megakernel took longer than predicted"


def test_operations_that_explore_has_not_tried_make_a_plan_of_kernels_expensive():
    """Tuning them took 64 s of a run of six minutes, for a plan that was predicted to be the slower one."""
    made = document()
    (kernels,) = (item for item in TrialOrder(made).candidates() if item.label == "kernels")
    tried = [trial("eager", 700.0, "eager"), trial("megakernel", 0.95 * kernels.predicted, "megakernel", keeps="met")]
    assert TrialOrder(made).why_not(kernels, tried, 330).startswith("Not tried: ")
    assert TrialOrder(made).why_not(kernels, tried, 3600) == "", "an hour is enough to hope"
    step = candidate("torch_linear", 1.0, "bf16", case=LinearCase(m=1, n=3072, k=2048, dtype="bf16"))
    here = Environment(device="NVIDIA H200", gpu_class="h200", versions={}, at="2026-11-20T00:00:00+00:00")
    made.results.explore = ExploreResult(environment=here, ceilings=CEILINGS, candidates=[step])
    assert TrialOrder(made).why_not(kernels, tried, 330) == ""


def test_a_plan_of_lower_precision_leaves_those_that_keep_it_to_be_tried():
    """Verify may refuse its quality, and then needs another plan."""
    made = document(precisions=["bf16", "fp8"], allow_unverified_quality=True)
    order = TrialOrder(made)
    by_label = {item.label: item for item in order.candidates()}
    fast = trial("megakernel_fp8", 25.0, "megakernel", keeps="met")
    fast.plan["options"] = {"weights": "fp8"}
    tried = [trial("eager", 700.0, "eager"), fast]
    assert order.why_not(by_label["megakernel"], tried, 3600) == ""
    assert order.why_not(by_label["megakernel_fp8"], [tried[0], trial("megakernel", 37.0, "megakernel")], 3600) == ""


def test_more_gpus_are_left_out_where_fewer_keep_the_promise_and_the_cheapest_is_wanted():
    tried = [trial("eager", 700.0, "eager"), trial("megakernel", 37.5, "megakernel", keeps="met")]
    for prefer, said in (("cheapest", "megakernel keeps every promise on fewer GPUs"), ("fastest", "")):
        order = TrialOrder(document(gpu_class="h200x2", prefer=prefer))
        two = next(item for item in order.candidates() if item.label == "megakernel on 2 GPUs")
        assert said in order.why_not(two, tried, 3600)


def test_what_is_promised_decides_over_the_minutes_only_where_it_is_predicted_to_be_kept():
    order = TrialOrder(document())
    by_label = {item.label: item for item in order.candidates()}
    assert order.too_late(by_label["megakernel"], 2.0, 2.0, 200.0) == ""
    text = order.too_late(by_label["compiled_max_autotune"], 2.0, 2.0, 200.0)
    assert text.startswith("Not tried: building takes about 84 s and 2 s were left. ")
    assert "megakernel" not in order.too_late(by_label["megakernel"], 2.0, 2.0, 0.0)
    assert order.too_late(by_label["megakernel"], 2.0, 2.0, 0.0)


def test_the_extension_ends_at_twice_the_minutes_and_needs_a_promise_that_nothing_keeps(context):
    open_run, strict = document(minutes=3), document(minutes=3, strict_minutes=True)
    missed, kept = [trial("eager", 700.0, "eager")], [trial("kernels", 45.0, "kernels", keeps="met")]
    assert 180 < TrialOrder(open_run).overtime(context, missed) <= 210
    assert TrialOrder(open_run).overtime(context, kept) == 0.0
    assert TrialOrder(strict).overtime(context, missed) == 0.0


def test_a_promise_relative_to_today_extends_the_minutes_as_one_with_a_limit_does(context):
    """Beside 700 ms the megakernel, of 39 predicted, keeps ten times faster; what was tried does not."""
    staged = document(objectives=[{"metric": "ttf_n", "n": 64, "at_least_faster": 10}], minutes=3)
    today = Interval(value=700.0, low=693.0, high=707.0)
    staged.results.baseline = BaselineResult(
        environment=ENVIRONMENT, runner="eager", dtype="bf16", requests=9, primary=today,
        distributions=[], tokens_per_second=90.0,
    )  # fmt: skip
    order = TrialOrder(staged)
    by_label = {item.label: item for item in order.candidates()}
    tried = [trial("eager", 700.0, "eager", keeps="met"), trial("compiled", 200.0, "compiled", keeps="met")]
    assert order.keeps(by_label["megakernel"])
    assert not order.keeps(by_label["compiled"])
    assert order.overtime(context, tried) > 180
    assert order.overtime(context, [*tried, trial("kernels", 45.0, "kernels", keeps="met")]) == 0.0


@pytest.mark.parametrize(
    ("objective", "value", "kept"),
    [
        ({"metric": "tpot", "at_least_faster": 2}, 4.9, True),
        ({"metric": "tpot", "at_least_faster": 2}, 5.1, False),
        ({"metric": "throughput", "at_least_faster": 2}, 20.1, True),
        ({"metric": "throughput", "at_least_faster": 2}, 19.9, False),
        ({"metric": "tpot", "limit": 3}, 2.9, True),
        ({"metric": "tpot", "limit": 3}, 3.1, False),
        ({"metric": "throughput", "limit": 1000}, 1100.0, True),
        ({"metric": "throughput", "limit": 1000}, 900.0, False),
        ({"metric": "tpot", "limit": 3}, None, False),
    ],
)
def test_a_promise_is_predicted_to_be_kept_on_its_own_side_of_the_limit(objective, value, kept):
    promise = Objective(**objective)
    assert meets_objective(value, promise, before=10.0) == kept
    assert not (promise.at_least_faster and meets_objective(value, promise)), "nothing is known of before"


def test_plans_that_were_left_out_for_time_are_named_with_the_minutes_that_they_take(context):
    left = [
        trial(name, 0, name, predicted=predicted, seconds_wanted=seconds).model_copy(update={"primary": None})
        for name, predicted, seconds in (("megakernel", 39.0, 13.0), ("compiled", 73.0, 24.0))
    ]
    promise = document().workload.objectives[0]
    assert predicted_to_keep(left, promise) == left[:1]
    undecided = left_out_words(left[:1], promise, "not_enough_samples")
    assert undecided.startswith("Undecided: ")
    assert "megakernel (predicted: 39.0 ms) may keep TTF64 p50 of at most 60 ms, and was not verified." in undecided
    missed = left_out_words(left[1:], promise, "missed")
    assert missed.startswith("Missed ")
    assert " compiled (predicted" in missed
    assert left_out_words(left, promise, "met") == ""
    relative = Objective(metric="ttf_n", n=64, at_least_faster=2)
    assert predicted_to_keep(left, relative) == []
    assert predicted_to_keep(left, relative, before=100.0) == left[:1]
    undecided = left_out_words(left[:1], relative, "not_enough_samples")
    assert " may keep TTF64 p50 at 2x faster than today, and was not verified." in undecided
    measured = [trial("kernels", 70, "kernels", predicted=50.0), trial("eager", 50, "eager", keeps="met")]
    assert predicted_to_keep(measured, promise) == measured[1:], "a measurement says more than a prediction"
    assert left_out_words([], relative, "too_close") == ""
    assert minutes_wanted(document(minutes=3), context, [13.0, 24.0]) == 4.0
    assert minutes_wanted(document(minutes=3), context, []) is None
    assert minutes_wanted(document(minutes=239.9), context, [13.0, 24.0]) == 240
    assert minutes_wanted(document(minutes=240), context, [13.0, 24.0]) is None


def test_explore_serves_the_leading_plan():
    """A megakernel runs no operation of a decode step by itself; a promise of the first token concerns the prompt."""
    assert leading_plan(document("explore")).label == "megakernel"
    result = document("explore")
    profile = _profile()
    cases, text = explore.wanted_cases(result, profile)
    assert cases == []
    assert text.startswith("Nothing was explored: megakernel is predicted ")
    first = document("explore", objectives=[{"metric": "ttft", "limit": 5}])
    cases, text = explore.wanted_cases(first, profile)
    assert {getattr(case.case, "m", 128) for case in cases} <= {1, 128}
    assert text.startswith("Only a prompt's operations were explored")
    without = document("explore", exclude=["megakernel"])
    assert len(explore.wanted_cases(without, profile)[0]) > len(cases)


def _profile():
    from tests.workers.stages.test_explore import profile

    return profile().model_copy(update={"ceilings": CEILINGS})


def test_elsewhere_than_on_hopper_a_prediction_leaves_out_less():
    rates = {"cpu": CEILINGS.model_copy(update={"burst": None})}
    made = document(gpu_class="cpu").model_copy(update={"ceilings": rates})
    order = TrialOrder(made)
    compiled = next(item for item in order.candidates() if item.label == "compiled")
    beside = [trial("eager", 0.8 * compiled.predicted, "eager")]
    assert order.why_not(compiled, beside, 3600) == ""


def test_build_times_are_remembered_from_one_run_to_the_next(monkeypatch, tmp_path):
    monkeypatch.setenv("KERNELS_CACHE", str(tmp_path / "cache"))
    builds = BuildTimes(stage_input("compose"))
    assert builds.expect("compiled", 60) == 30
    builds.note("compiled", 7.04)
    assert builds.expect("compiled", 60) == 7.0
    assert builds.expect("compiled_tuned", 120) == 60
    builds._path.write_text("broken")
    assert builds.expect("compiled", 60) == 30
