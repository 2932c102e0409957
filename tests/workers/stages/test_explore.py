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


def row(case, calls, **kwargs):
    return {"op": case.op, "case": case.model_dump(), "per_request": calls} | kwargs


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
    messages = []
    context._listener = messages.append
    result = explored(context, [row(ATTENTION, 2), row(DECODE, 56), row(PROMPT, 8)])
    assert result.ceilings == CEILINGS
    assert result.environment.gpu_class == "cpu"
    cases = list(dict.fromkeys(str(candidate.case | {"weights": ""}) for candidate in result.candidates))
    assert len(cases) == 3
    assert all(candidate.reason for candidate in result.candidates)
    for op in ("linear", "attention"):
        names = {candidate.variant for candidate in result.candidates if candidate.op == op}
        assert len(names) >= 3
    timed = [candidate for candidate in result.candidates if candidate.gate == "pass"]
    assert all(item.ms and item.ms_low <= item.ms <= item.ms_high and item.error is not None for item in timed)
    refused = {candidate.variant: candidate.reason for candidate in result.candidates if candidate.gate == "refused"}
    assert refused["sdpa_cudnn"].startswith("device is CPU")
    assert "allow_unverified_quality" in refused["int8_dynamic_cpu"]
    chosen = [candidate for candidate in result.candidates if candidate.chosen]
    assert len(chosen) == 3
    assert sum(item.per_request for item in chosen) == 66
    assert messages[-1].fraction == 1
    assert messages[-2].partial["candidates timed"] == "2"


def test_lossy_variants_are_timed_when_the_workload_allows_them(context):
    constraints = {"precisions": ["fp32", "int8"], "allow_unverified_quality": True}
    result = explored(context, [row(PROMPT, 8)], constraints=constraints)
    outcome = next(candidate for candidate in result.candidates if candidate.variant == "int8_dynamic_cpu")
    assert outcome.gate == "pass"
    assert outcome.case["weights"] == "int8"
    assert outcome.ms


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
    result = explore.read_cases(rows, CEILINGS)
    assert [item.case for item in result] == [PROMPT, DECODE]
    assert [item.per_request for item in result] == [1, 15]
    assert result[0].ms == 50.0


def test_a_composed_plan_is_explored_in_the_forms_it_can_take():
    document = stage_input("explore", manifest(TINY | {"dtype": "bfloat16"}), gpu_class="h200")
    result = explore.composed_cases(kernels_plan.cases(document), CEILINGS)
    linear = [item.case for item in result if isinstance(item.case, LinearCase)]
    assert {(case.n, case.k) for case in linear if case.epilogue == "rmsnorm_scale"} == {(128, 64), (256, 64)}
    assert {case.m for case in linear} == {1, 64}
    assert {"swiglu", "rmsnorm_scale_swiglu", "residual", "none"} <= {case.epilogue for case in linear}
    assert {item.case.op for item in result} >= {"attention", "step_attention", "lm_head", "rmsnorm", "rope"}
    assert [item.ms for item in result] == sorted((item.ms for item in result), reverse=True)
    excluded = stage_input("explore", gpu_class="h200", constraints={"exclude": ["kernels"]})
    assert kernels_plan.cases(excluded) == kernels_plan.cases(stage_input("explore")) == {}
    # A model_type that transformers does not know shows that no model is built: building it raises ValueError.
    unknown = manifest(TINY).model_copy(update={"config": TINY | {"model_type": "none-such"}})
    with pytest.raises(ValueError, match="none-such"):
        kernels_plan.cases(stage_input("explore", unknown, gpu_class="h200"))
    assert kernels_plan.cases(stage_input("explore", unknown)) == {}


def test_excluded_variants_are_not_tried_and_none_without_time_or_a_profile(context):
    result = explored(context, [row(ATTENTION, 2)], constraints={"exclude": ["sdpa_math"]})
    assert "sdpa_flash" in {candidate.variant for candidate in result.candidates}
    assert "sdpa_math" not in {candidate.variant for candidate in result.candidates}
    context._deadline = 0
    result = explored(context, [row(DECODE, 56)])
    tried = [candidate for candidate in result.candidates if candidate.variant == "torch_linear"]
    assert (tried[0].gate, tried[0].late) == ("refused", True)
    assert not any(candidate.chosen for candidate in result.candidates)
    with pytest.raises(StageError, match="profile stage"):
        explore.run(stage_input("explore"), context)
    assert set(TimedVariant.model_fields) <= set(Candidate.model_fields)
