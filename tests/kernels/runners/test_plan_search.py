"""Which variants a kernels plan takes: by their own times, then in the whole model."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from kernels import runners
from kernels.hardware import GPUS
from kernels.model.decoder import Decoder
from kernels.model.layer_ops import BatchShape, LayerOps
from kernels.ops import Case, LinearCase, StepAttentionCase
from kernels.plan import Plan, PlannedOp
from kernels.runners.defaults import TuningRunner
from kernels.runners.eager import EagerRunner
from kernels.runners.pass_timer import GraphTimer
from kernels.tune.plan_search import Option, search_plan
from kernels.tune.tuning_cache import TunedVariant, TuningCache
from tests.kernels.runners.engine_models import SPARSE, load

TRAFFIC = BatchShape(batch=1, prompt=20, tokens=12)


def option(case: Case, ms: float, variant: str = "", **params: Any) -> Option:
    usual = {"linear": "torch_linear", "attention": "sdpa_math", "gated": "torch_gated", "rmsnorm": "torch_rmsnorm"}
    usual |= {"lm_head": "torch_lm_head", "step_attention": "torch_step_attention", "rope": "torch_rope"}
    usual |= {"grouped": "torch_grouped_loop"}
    return Option(PlannedOp(op=case.op, case=case.model_dump(), variant=variant or usual[case.op], params=params), ms)


def options_of(layer_ops: LayerOps, milliseconds: Any) -> dict[str, list[Option]]:
    return {case.key: [option(case, milliseconds(case))] for case in layer_ops.cases() if case.op != "rope"}


def always() -> bool:
    return True


def epilogues(ops: Sequence[PlannedOp], m: int) -> set[str]:
    return {op.case["epilogue"] for op in ops if op.op == "linear" and op.case["m"] == m}


@pytest.mark.parametrize("name", ["llama-bias", "qwen3", *SPARSE[:1]])
def test_any_arrangement_of_a_family_is_its_model(name: str, random_ids: torch.Tensor) -> None:
    model = load(name)
    expected = EagerRunner(model).logits(random_ids)
    layer_ops = LayerOps(Decoder(model), TRAFFIC)
    for fused in (True, False):
        cheap = 1.0 if fused else 3.0
        result = options_of(
            layer_ops, lambda case, cheap=cheap: cheap if getattr(case, "epilogue", "") in FUSED else 2.0
        )
        plan = Plan(
            model_digest="",
            gpu="cpu",
            runner="kernels",
            dtype="fp32",
            ops=search_plan(layer_ops, result, None, always).ops,
        )
        runner = runners.apply(model, plan)
        runner.prepare(1, 20, 12)
        torch.testing.assert_close(runner.logits(random_ids), expected, atol=5e-4, rtol=1e-3)


FUSED = ("residual", "rmsnorm_scale", "rmsnorm_scale_bias", "rmsnorm_scale_swiglu")


def test_the_cheapest_sum_wins_where_nothing_is_timed_in_the_model() -> None:
    layer_ops = LayerOps(Decoder(load("llama")), TRAFFIC)

    def fused_pays_for_one_row(case: Any) -> float:
        return (0.5 if case.m == 1 else 9.0) if getattr(case, "epilogue", "") in FUSED else 1.0

    chosen = search_plan(layer_ops, options_of(layer_ops, fused_pays_for_one_row), None, always)
    assert epilogues(chosen.ops, 1) == {"rmsnorm_scale", "rmsnorm_scale_swiglu", "residual"}
    assert epilogues(chosen.ops, 64) == {"none", "swiglu"}
    kinds = {(op.op, op.case.get("residual")) for op in chosen.ops}
    assert {("rmsnorm", True), ("rmsnorm", False), ("step_attention", None), ("lm_head", None)} <= kinds


def test_a_variant_must_win_among_its_neighbours() -> None:
    """A product that is the faster one by itself loses its place when the whole pass is slower with it."""
    layer_ops = LayerOps(Decoder(load("llama")), TRAFFIC)
    result = options_of(layer_ops, lambda case: 1.0)
    step = next(case for case in layer_ops.cases() if isinstance(case, StepAttentionCase))
    alone = option(step, 0.9, "step_hopper", splits=8, pdl=True)
    result[step.key].insert(0, alone)

    def timer(queries: int, plans: Sequence[Sequence[PlannedOp]]) -> list[float]:
        return [2.0 if any(op.variant == "step_hopper" for op in plan) else 1.5 for plan in plans]

    chosen = search_plan(layer_ops, result, timer, always)
    assert not any(op.variant == "step_hopper" for op in chosen.ops)
    assert any(
        "with torch_step_attention for step_attention in place of step_hopper {'splits': 8, 'pdl': True}" in note
        and note.endswith("1.5 against 2 ms, taken.")
        for note in chosen.notes
    )


def test_choosing_takes_what_there_is_and_ends_when_time_is_up() -> None:
    layer_ops = LayerOps(Decoder(load("llama")), TRAFFIC)

    def timer(queries: int, plans: Sequence[Sequence[PlannedOp]]) -> list[float]:
        raise AssertionError("timed although time was up")

    assert search_plan(layer_ops, options_of(layer_ops, lambda case: 1.0), timer, lambda: False).ops
    result = options_of(layer_ops, lambda case: 1.0)
    result = {key: each for key, each in result.items() if "rmsnorm_scale" not in key}
    chosen = search_plan(layer_ops, result, None, always)
    assert "swiglu" in epilogues(chosen.ops, 1)


def test_cases_are_counted_as_one_request_runs_them_and_passes_timed_as_a_whole() -> None:
    model = load("llama")
    counted = LayerOps(Decoder(model), TRAFFIC).cases()
    down = LinearCase(m=1, n=64, k=160, dtype="fp32", weights="fp32", epilogue="residual")
    assert counted[down] == 3 * 11
    assert counted[down.model_copy(update={"m": 64})] == 3
    layer_ops = LayerOps(Decoder(model), TRAFFIC)
    ops = search_plan(layer_ops, options_of(layer_ops, lambda case: 1.0), None, always).ops
    timer = GraphTimer(Decoder(model), GPUS["cpu"], TRAFFIC)
    assert all(ms > 0 for queries in (1, 64) for ms in timer(queries, [ops, []]))


def test_a_runner_without_a_plan_takes_the_kept_choices_and_says_why(monkeypatch, random_ids, capsys):
    asked: list[Case] = []

    def kept(self: TuningCache, case: Case, bench: Any, seconds: float = 0) -> TunedVariant:
        asked.append(case)
        name = option(case, 1.0).op.variant
        return TunedVariant(
            name, {}, None if case.op == "rope" else 0.002, "The only one.", "2026-11-20T21:00:00+00:00"
        )

    monkeypatch.setattr(TuningCache, "choose", kept)
    model = load("llama")
    runner = TuningRunner(model, {"weights": "int8"})
    assert runner.generate(random_ids[:1, :20], 8).tokens == EagerRunner(model).generate(random_ids[:1, :20], 8).tokens
    text = capsys.readouterr().err
    assert "linear m=1 n=128 k=64 weights=fp32 epilogue=rmsnorm_scale: torch_linear" in text
    assert {case.weights for case in asked if isinstance(case, LinearCase)} == {"fp32", "int8"}
    assert any(bound and bound.variant.name == "torch_step_attention" for bound in runner._variants._found.values())
