"""A plan in a sentence: the runner by its own summary, the kernels that are not torch's own by what they do."""

from collections.abc import Sequence
from typing import Any

import pytest

from kernels import registry
from kernels.ops import LinearCase
from kernels.plan import Plan, PlannedOp
from workers.documents.stages import PlanTrial
from workers.planning import kernels_plan
from workers.planning.summaries import describe_plan, no_other_plan

OPS = [
    ("linear", "torch_linear"),
    ("lm_head", "lm_head_skinny"),
    ("linear", "skinny"),
    ("step_attention", "step_hopper"),
    ("linear", "gemm_hopper"),
    ("attention", "flash_hopper"),
    ("linear", "skinny"),
]


def plan(runner: Any, options: dict[str, Any] | None = None, ops: Sequence[tuple[str, str]] = ()) -> Plan:
    planned: list[Any] = [{"op": op, "case": {}, "variant": variant} for op, variant in ops]
    return Plan(model_digest="d", gpu="h200", runner=runner, options=options or {}, ops=planned)


def test_a_composed_plan_names_its_attention_and_its_products():
    text = describe_plan(plan("kernels", ops=OPS))
    parts = "attention by step_hopper and flash_hopper, products by skinny and gemm_hopper, the LM head by"
    assert text.endswith(f"; {parts} lm_head_skinny.")
    assert "torch_linear" not in text


@pytest.mark.parametrize(
    ("runner", "options", "name"),
    [("compiled", {"compile": False}, "cuda_graphs"), ("megakernel", {"weights": "fp8"}, "megakernel_fp8")],
)
def test_a_runner_is_told_by_the_variant_of_its_options(runner, options, name):
    assert describe_plan(plan(runner, options)).lower() == f"{registry.variant(name).summary}.".lower()


def test_a_kernels_plan_that_is_rounded_to_one_precision_names_it():
    def op(variant: str, weights: str) -> PlannedOp:
        case = LinearCase(m=1, n=64, k=64, dtype="bf16", weights=weights).model_dump()
        return PlannedOp(op="linear", case=case, variant=variant)

    fp8, nvfp4, own = op("skinny_fp8", "fp8"), op("skinny_nvfp4", "nvfp4"), op("skinny", "bf16")
    options = kernels_plan.runner_options([fp8, own])
    assert options == {"weights": "fp8"}
    assert kernels_plan.runner_options([own]) == kernels_plan.runner_options([fp8, nvfp4]) == {}
    assert "weights in fp8" in describe_plan(plan("kernels", options))


def test_where_no_other_plan_has_a_figure_each_is_quoted_with_its_reason():
    today = PlanTrial(label="eager", plan={}, gate="pass", chosen=True)
    reason = "Not measured: the stage's time was over."
    late = PlanTrial(label="compiled", plan={}, gate="error", reason=reason, skipped="time")
    refused = PlanTrial(label="kernels", plan={}, gate="refused", reason="device is CPU")
    assert no_other_plan([today, refused, late]) == (
        "No other plan was measured, so none is known to be faster. “compiled”: the stage's time was over. "
        "A run with more minutes may measure more."
    )
