"""Explore over a real profile's cases of a tiny model, on the CPU."""

import pytest

from kernels.ops import AttentionCase, LinearCase
from kernels.tune.timed_variant import TimedVariant
from tests.workers.conftest import ENVIRONMENT, TINY, manifest, stage_input
from workers.documents.measurement import Candidate, Ceilings
from workers.documents.profile import ProfileResult
from workers.documents.stages import Results
from workers.documents.workload import Constraints
from workers.harness.context import StageError
from workers.planning import kernels_plan
from workers.stages import explore

CEILINGS = Ceilings(read_tbps=0.01, copy_tbps=0.01, matrix_tflops={"fp32": 0.1, "bf16": 0.2}, launch_us=1)
DECODE = LinearCase(m=1, n=128, k=64, dtype="fp32", weights="fp32")
PROMPT = LinearCase(m=16, n=128, k=64, dtype="fp32", weights="fp32")
ATTENTION = AttentionCase(
    kind="prefill", head_dim=16, heads=4, kv_heads=2, batch=1, q_len=16, kv_len=16, dtype="fp32", kv_dtype="fp32"
)


def profile(*rows):
    facts = {"request_ms": 10, "device_ms": 9, "attributed_share": 0.99, "launches": 100, "rows": [], "bottlenecks": []}
    return ProfileResult(environment=ENVIRONMENT, ceilings=CEILINGS, cases=list(rows), **facts)


def row(case, calls, **more):
    return {"op": case.op, "case": case.model_dump(), "per_request": calls} | more


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path, context):
    """A moment of timing per case, a cache of its own, and no C++ compiler: Inductor takes too long here."""
    monkeypatch.setenv("KERNELS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(explore.CASE_RULE, "seconds", 0.3)
    monkeypatch.setattr(context, "_deadline", context._deadline + 600)
    monkeypatch.setattr("kernels.torch_compiled.shutil.which", lambda name: None)


def explored(context, rows, **sla):
    document = stage_input("explore", results=Results(profile=profile(*rows)), **sla)
    return explore.run(document, context)


def test_every_offered_variant_is_a_candidate_with_a_reason(context):
    said = []
    context._listener = said.append
    result = explored(context, [row(ATTENTION, 2), row(DECODE, 56), row(PROMPT, 8)])
    assert result.ceilings == CEILINGS
    assert result.environment.gpu_class == "cpu"
    cases = list(dict.fromkeys(str(each.case | {"weights": ""}) for each in result.candidates))
    assert len(cases) == 3
    assert all(each.reason for each in result.candidates)
    for op in ("linear", "attention"):
        names = {each.variant for each in result.candidates if each.op == op}
        assert len(names) >= 3
    timed = [each for each in result.candidates if each.gate == "pass"]
    assert all(each.ms and each.ms_low <= each.ms <= each.ms_high and each.error is not None for each in timed)
    refused = {each.variant: each.reason for each in result.candidates if each.gate == "refused"}
    assert refused["sdpa_cudnn"].startswith("device is CPU")
    assert "allow_unverified_quality" in refused["int8_dynamic_cpu"]
    chosen = [each for each in result.candidates if each.chosen]
    assert len(chosen) == 3
    assert sum(each.per_request for each in chosen) == 66
    assert said[-1].fraction == 1
    assert said[-2].partial["candidates timed"] == "2"


def test_lossy_variants_are_timed_when_the_workload_allows_them(context):
    constraints = {"precisions": ["fp32", "int8"], "allow_unverified_quality": True}
    result = explored(context, [row(PROMPT, 8)], constraints=constraints)
    found = next(each for each in result.candidates if each.variant == "int8_dynamic_cpu")
    assert found.gate == "pass"
    assert found.case["weights"] == "int8"
    assert found.ms


@pytest.mark.parametrize(
    ("constraints", "generated", "said"),
    [
        ({"precisions": ["fp32"]}, False, "not among the precisions"),
        ({"precisions": ["fp32", "int8"]}, True, "allow_unverified_quality"),
        ({"precisions": ["fp32", "int8"]}, False, ""),
        ({"precisions": ["fp32", "int8"], "allow_unverified_quality": True}, True, ""),
    ],
)
def test_lower_precision_needs_permission(constraints, generated, said):
    model = manifest(TINY).model_copy(update={"generated": generated})
    cases, forbidden = explore.lossy_cases(PROMPT, Constraints(**constraints), model)
    assert "int8" in {case.weights for case in cases}
    assert said in forbidden
    assert bool(said) == bool(forbidden)
    assert explore.lossy_cases(ATTENTION, Constraints(**constraints), model) == ([], "")


def test_costliest_case_comes_first_and_unknown_ones_are_left_out():
    unknown = {"op": "convolution", "case": {"op": "convolution"}, "per_request": 3}
    rows = [row(DECODE, 10), row(PROMPT, 1, ms=50.0), row(DECODE, 5), unknown, {"op": "idle"}]
    found = explore.read_cases(rows, CEILINGS)
    assert [each.case for each in found] == [PROMPT, DECODE]
    assert [each.per_request for each in found] == [1, 15]
    assert found[0].ms == 50.0


def test_a_composed_plan_is_explored_in_the_forms_it_can_take():
    document = stage_input("explore", manifest(TINY | {"dtype": "bfloat16"}), gpu_class="h200")
    found = explore.composed_cases(kernels_plan.cases(document), CEILINGS)
    linear = [each.case for each in found if isinstance(each.case, LinearCase)]
    assert {(case.n, case.k) for case in linear if case.epilogue == "rmsnorm_scale"} == {(128, 64), (256, 64)}
    assert {case.m for case in linear} == {1, 64}
    assert {"swiglu", "rmsnorm_scale_swiglu", "residual", "none"} <= {case.epilogue for case in linear}
    assert {each.case.op for each in found} >= {"attention", "step_attention", "lm_head", "rmsnorm", "rope"}
    assert [each.ms for each in found] == sorted((each.ms for each in found), reverse=True)
    excluded = stage_input("explore", gpu_class="h200", constraints={"exclude": ["kernels"]})
    assert kernels_plan.cases(excluded) == kernels_plan.cases(stage_input("explore")) == {}
    # A model_type that transformers does not know shows that no model is built: building it raises ValueError.
    unknown = manifest(TINY).model_copy(update={"config": TINY | {"model_type": "none-such"}})
    with pytest.raises(ValueError, match="none-such"):
        kernels_plan.cases(stage_input("explore", unknown, gpu_class="h200"))
    assert kernels_plan.cases(stage_input("explore", unknown)) == {}


def test_excluded_variants_are_not_tried_and_none_without_time_or_a_profile(context):
    result = explored(context, [row(ATTENTION, 2)], constraints={"exclude": ["sdpa_math"]})
    assert "sdpa_flash" in {each.variant for each in result.candidates}
    assert "sdpa_math" not in {each.variant for each in result.candidates}
    context._deadline = 0
    result = explored(context, [row(DECODE, 56)])
    tried = [each for each in result.candidates if each.variant == "torch_linear"]
    assert (tried[0].gate, tried[0].late) == ("refused", True)
    assert not any(each.chosen for each in result.candidates)
    with pytest.raises(StageError, match="profile stage"):
        explore.run(stage_input("explore"), context)
    assert set(TimedVariant.model_fields) <= set(Candidate.model_fields)
