"""A mixture of experts and a decoder of long convolutions through the stages on the CPU, with their own floors."""

from pathlib import Path

import pytest

from kernels.model.loading import skeleton
from kernels.model_files import catalogue
from kernels.ops import FftConvCase, GatedCase, GroupedCase, case_from
from kernels.plan import Plan, PlannedOp
from tests.workers.conftest import context_of, manifest, stage_input
from workers.documents.stages import ComposeResult, Results
from workers.planning import kernels_plan, steps
from workers.planning.serving import serving_of
from workers.stages import baseline, explore, profile, verify

pytestmark = pytest.mark.usefixtures("known_ceilings")
CONFIG = catalogue.entry("tiny-qwen3-moe")[0]
CHOSEN, HIDDEN, INNER, LAYERS = 2, 128, 96, 4


def test_floors_count_the_experts_that_have_rows(tmp_path: Path) -> None:
    result = profile.run(stage_input("profile", manifest(CONFIG)), context_of(CONFIG, tmp_path))
    rows = {(row.op, row.phase): row for row in result.rows}
    step = rows["experts", "decode"]
    count = 7
    weights = CHOSEN * 3 * INNER * HIDDEN
    activations = CHOSEN * (HIDDEN + 2 * INNER + INNER + HIDDEN)
    assert step.calls == 2 * LAYERS * count
    assert step.least_bytes == pytest.approx(4 * LAYERS * count * (weights + activations))
    assert step.flops == pytest.approx(2 * LAYERS * count * weights)
    assert "8 experts" in step.shapes
    assert rows["linear router", "decode"].flops == pytest.approx(2 * LAYERS * count * 8 * HIDDEN)
    assert ("routing", "decode") in rows
    assert not [item.op for item in result.rows if "(Qwen3Moe" in item.op]


def test_a_kernels_plan_is_made_of_it_and_served_and_in_no_lower_precision_but_int8() -> None:
    document, model = stage_input("compose", manifest(CONFIG), gpu_class="h200"), skeleton(CONFIG, "bf16")
    assert kernels_plan.composes(document, model)
    wanted = {case for case in kernels_plan.cases(document) if isinstance(case, GroupedCase)}
    plain = {(case.rows, case.n, case.k) for case in wanted if not case.gathers}
    assert plain == {(CHOSEN * tokens, n, k) for tokens in (1, 64) for n, k in ((192, 128), (128, 96))}
    constraints = document.workload.constraints
    lossy = {item.weights for case in wanted for item in explore.lossy_cases(case, constraints, document.model)[0]}
    assert lossy == {"int8"}
    assert kernels_plan.own_precision(next(iter(wanted)).model_copy(update={"weights": "int8"})) in wanted
    assert kernels_plan.why_unrounded(model, "kernels_int8") == ""
    assert "no lower precision but int8" in kernels_plan.why_unrounded(model, "kernels_fp8")
    served = Plan(model_digest="", gpu="cpu", runner="kernels", dtype="fp32")
    result, why = serving_of(served, stage_input("verify", manifest(CONFIG)))
    assert result is not None, why


def test_a_step_without_variants_takes_no_product_whose_host_reads_the_rows() -> None:
    cases = [GroupedCase(rows=2, experts=8, n=192, k=128), GatedCase(m=2, n=96)]
    named = zip(cases, ("grouped_hopper", "gated_triton"), strict=True)
    ops = [PlannedOp(op=case.op, case=case.model_dump(), variant=variant) for case, variant in named]
    result = steps.cumulative_plans(Plan(model_digest="", gpu="h200", runner="kernels", ops=ops))
    assert [name for name, _ in result] == [steps.RUNNER, "products", "norms and gates"]
    assert [op.variant for op in result[0][1].ops] == ["torch_gated"]


HYENA = catalogue.entry("tiny-striped-hyena")[0] | {"num_hidden_layers": 2, "attn_layer_idxs": [1]}


def test_a_long_convolution_is_a_case_whose_variant_gets_a_verdict(tmp_path: Path) -> None:
    prompt, width = 64, 128
    context, model, results = context_of(HYENA, tmp_path, 20), manifest(HYENA), Results()
    traffic = {"traffic": {"prompt_tokens": prompt, "output_tokens": 2}}
    traffic["objectives"] = [{"metric": "ttft", "limit": 1e5}]
    case = FftConvCase(batch=1, width=width, length=prompt, filter=prompt, dtype="fp32")
    short = case.model_copy(update={"width": 3 * width, "filter": 3, "gated": False})
    for name, stage in (("baseline", baseline), ("profile", profile)):
        setattr(results, name, stage.run(stage_input(name, model, results, **traffic), context))
    (row,) = (row for row in results.profile.rows if row.op == "convolution long_filter")
    assert (row.phase, row.calls, row.flops) == ("prefill", 1, pytest.approx(case.flops))
    listed = [item for item in results.profile.cases if item["op"] == "fft_conv"]
    assert {case_from.validate_python(item["case"]) for item in listed} == {case, short}
    assert {item["per_request"] for item in listed} == {1}
    document = stage_input("explore", model, results, **traffic)
    assert {case, short} <= {item.case for item in explore.wanted_cases(document, results.profile)[0]}
    planned = {"torch_fft": case, "torch_conv1d": short}
    ops = [PlannedOp(op=each.op, case=each.model_dump(), variant=name) for name, each in planned.items()]
    plan = Plan(model_digest=model.digest, gpu="cpu", runner="eager", dtype="fp32", ops=ops)
    results.compose = ComposeResult(environment=results.baseline.environment, trials=[], plan=plan.model_dump())
    verified = verify.run(stage_input("verify", model, results, **traffic), context)
    assert verified.verdict in ("met", "not_enough_samples")
    assert len(verified.checks) == 1
