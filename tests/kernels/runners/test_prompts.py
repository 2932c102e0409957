"""The prompt's pass that the composed runners share: the same cache and token as the decoder session leaves."""

from typing import Any

import pytest
import torch

from kernels.hardware import GPUS
from kernels.model.bound_variants import BoundVariants
from kernels.model.decoder import Decoder
from kernels.model.layer_ops import BatchShape, LayerOps
from kernels.model.prompt_ops import of_prompts, prompt_ops
from kernels.model.prompts import PromptReader, bucket
from kernels.model.rounding import Rounding, round_decoder, round_weights
from kernels.model.state import State
from kernels.ops import GroupedCase, RmsNormCase, StepAttentionCase
from kernels.plan import PlannedOp
from kernels.runners.sessions import DecoderSession
from tests.kernels.runners.engine_models import COMPACT, CONFIGS, load

CAPACITY = 192


def stacked_state(model: Decoder, batch: int) -> State:
    """A state over one tensor [layers, batch, capacity, kv_heads, head_dim] each, as the megakernel has them."""
    shape = model.shapes[0]
    size = (len(model.layers), batch, CAPACITY, shape.kv_heads, shape.head_dim)
    keys, values = (model.embedding.new_full(size, float("nan")) for _ in range(2))
    position, token = torch.zeros(1, dtype=torch.int64), torch.zeros(batch, 1, dtype=torch.int64)
    cos, sin = model.rope_table(CAPACITY)
    return State(batch, CAPACITY, cos, sin, list(zip(keys, values, strict=True)), position, token)


def prompt_of(batch: int, length: int) -> torch.Tensor:
    return torch.randint(3, 300, (batch, length), generator=torch.Generator().manual_seed(length))


@torch.no_grad()
def compare(model: Decoder, variants: BoundVariants, ids: torch.Tensor, whole: bool, tolerance: float) -> PromptReader:
    """Runs the prompt both ways and demands the same keys, values, token and position."""
    batch, length = ids.shape
    session = DecoderSession(model, batch, length, CAPACITY, lambda function: function)
    session.prompt.copy_(ids)
    session._prefill()
    prompts = PromptReader(model, variants, stacked_state(model, batch), whole=whole)
    stream = prompts.read(ids)
    for result, expected in zip(prompts.state.cache, session._cache, strict=True):
        for one, other in zip(result, expected, strict=True):
            torch.testing.assert_close(one[:, :length], other[:, :length], atol=tolerance, rtol=tolerance)
            assert one[:, bucket(length) :].isnan().all()
    assert torch.equal(prompts.state.token, session.token)
    assert prompts.state.position.item() == length
    assert len(stream) == (batch * bucket(length) if whole else batch)
    return prompts


@pytest.mark.parametrize(
    ("name", "batch", "length", "whole"),
    [(name, *((1, 20), (2, 64), (1, 100))[at % 3], at % 2) for at, name in enumerate(COMPACT)],
)
def test_cache_and_token_are_the_decoder_sessions(name: str, batch: int, length: int, whole: bool) -> None:
    model = Decoder(load(name))
    variants = BoundVariants([], GPUS["cpu"])
    prompts = compare(model, variants, prompt_of(batch, length), whole, 2e-4)
    assert list(prompts._graphs) == [bucket(length)]


def test_a_second_prompt_does_not_see_the_first_and_fits_where_the_cache_holds_it() -> None:
    model = Decoder(load("llama"))
    prompts = compare(model, BoundVariants([], GPUS["cpu"]), prompt_of(1, 60), whole=False, tolerance=2e-4)
    keys = prompts.state.cache[-1][0][:, :60].clone()
    prompts.read(prompt_of(1, 64))
    prompts.read(prompt_of(1, 60))
    assert torch.equal(prompts.state.cache[-1][0][:, :60], keys)
    assert list(prompts._graphs) == [64]
    prompts = PromptReader(model, BoundVariants([], GPUS["cpu"]), stacked_state(model, 2), whole=False)
    assert prompts.fits(2, 130, 62)
    assert not prompts.fits(2, 130, 63)
    assert not prompts.fits(2, 193, 1)
    assert not prompts.fits(1, 130, 62)


@pytest.mark.parametrize("weights", ["fp8", "nvfp4"])
def test_rounded_weights_are_used_as_they_are(weights: str) -> None:
    source = load("llama", "bf16")
    model = Decoder(source)
    round_decoder(model, round_weights(source, model, weights, Rounding()))
    compare(model, BoundVariants([], GPUS["cpu"]), prompt_of(1, 64), whole=False, tolerance=0.05)


def usual(name: str, prompt: int, gpu: str, batch: int = 1, dtype: str = "bf16", **kwargs: Any) -> list[PlannedOp]:
    places = LayerOps(Decoder(load(name, dtype)), BatchShape(batch, prompt, 8))
    return prompt_ops(places, GPUS[gpu], **kwargs)


def names(ops: list[PlannedOp]) -> set[str]:
    return {op.variant for op in ops}


TRITON = {"rmsnorm_triton", "gated_triton", "rope_triton"}
WIDE = {"hidden_size": 256, "intermediate_size": 512}  # heads of 64


def test_usual_ops_follow_size_and_gpu_and_what_is_excluded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONFIGS, "wide", CONFIGS["llama"] | WIDE)
    norms, hopper = {"rmsnorm_triton", "rope_triton"}, {"skinny", "lm_head_skinny"}
    assert names(usual("wide", 128, "h200")) == {*norms, *hopper, "flash_triton", "small_gemm"}
    assert names(usual("wide", 512, "h200")) == {*TRITON, *hopper, "torch_linear", "flash_triton"}
    assert names(usual("wide", 1024, "h200")) == {*norms, *hopper, "torch_linear", "flash_hopper", "gemm_hopper"}
    assert names(usual("wide", 1024, "a100")) == {*TRITON, "torch_linear", "torch_lm_head", "flash_triton"}
    assert "torch_lm_head" in names(usual("wide", 64, "h200", batch=32))
    assert not names(usual("wide", 128, "cpu")) & {*TRITON, "flash_triton"}
    left_out = ["gemm_hopper", "small_gemm", "skinny", "flash_hopper", "rope_triton", "lm_head_skinny"]
    left = {"rmsnorm_triton", "gated_triton", "flash_triton", "torch_rope", "torch_linear", "torch_lm_head"}
    for prompt in (128, 1024):
        assert names(usual("wide", prompt, "h200", exclude=left_out)) == left


@pytest.mark.parametrize("prompt", [128, 512, 1024])
def test_last_tokens_go_on_by_products_of_their_own(monkeypatch: pytest.MonkeyPatch, prompt: int) -> None:
    """Not through tiles of many rows; and not as dependent launches, which most of their neighbours are not."""
    monkeypatch.setitem(CONFIGS, "wide", CONFIGS["llama"] | WIDE)
    alone = [op for op in usual("wide", prompt, "h200", batch=2) if op.op == "linear" and op.case["m"] == 2]
    result = [(op.case["n"], op.case["k"], op.case["epilogue"], op.variant, op.params) for op in alone]
    out, gate, down = (256, 256, "residual"), (512, 256, "rmsnorm_scale_swiglu"), (256, 512, "residual")
    assert result == [(*product, "skinny", {}) for product in (out, gate, down)]


def test_few_rows_go_through_products_that_gate_and_add(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that can be are dependent launches."""
    monkeypatch.setitem(CONFIGS, "wide", CONFIGS["llama"] | WIDE)
    ops = [op for op in usual("wide", 128, "h200") if op.variant != "skinny"]
    products = {(op.case["m"], op.case["epilogue"], op.variant) for op in ops if op.op == "linear"}
    assert products == {(128, epilogue, "small_gemm") for epilogue in ("none", "swiglu", "residual")}
    assert [op.params["tokens"] for op in ops if op.case.get("epilogue") == "residual"] == [1, 1]
    assert all(op.params.get("pdl") for op in ops)
    between = [op for op in usual("wide", 256, "h200") if op.variant in {*TRITON, "flash_triton"}]
    assert between
    assert not any(op.params["pdl"] for op in between)


def test_a_tile_of_a_short_prompts_attention_holds_all_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    def tile(prompt: int, **kwargs: int) -> list[int]:
        monkeypatch.setitem(CONFIGS, "wide", CONFIGS["llama"] | WIDE | kwargs)
        params = next(op.params for op in usual("wide", prompt, "h200") if op.variant == "flash_triton")
        return [params[name] for name in ("block_m", "block_n", "warps", "stages")]

    assert tile(128) == [64, 128, 4, 1]
    assert tile(128, head_dim=128) == [64, 128, 8, 1]
    assert tile(192) == [64, 64, 4, 2]


@pytest.mark.parametrize("name", ["qwen2", "qwen3"])
def test_every_call_is_planned(name: str) -> None:
    """Of the usual ops: so that a plan of them says what runs."""
    model, gpu = Decoder(load(name)), GPUS["cpu"]
    variants = BoundVariants(prompt_ops(LayerOps(model, BatchShape(1, 64, 8)), gpu), gpu)
    compare(model, variants, prompt_of(1, 64), whole=False, tolerance=2e-4)
    called = [bound for bound in variants._found.values() if bound is not None]
    assert called
    assert all(part.distance < float("inf") for part in called)


def test_a_plans_prompt_ops_are_those_of_its_bucket() -> None:
    cases: list[Any] = [RmsNormCase(m=m, n=64) for m in (2, 128)]
    cases += [GroupedCase(rows=rows, experts=8, n=64, k=64) for rows in (4, 256)]
    cases.append(StepAttentionCase(batch=2, heads=4, kv_heads=2, head_dim=16, kv_len=80))
    cases += [place.model_copy() for place in LayerOps(Decoder(load("llama")), BatchShape(2, 50, 8)).final_ops()]
    ops = [PlannedOp(op=case.op, case=case.model_dump(), variant="any") for case in cases]
    of_bucket = [(op.op, op.case.get("m") or op.case["rows"]) for op in of_prompts(ops, BatchShape(2, 50, 8))]
    assert of_bucket == [("rmsnorm", 128), ("grouped", 256), ("lm_head", 2)]


@pytest.mark.parametrize("length", [100, 1024])
def test_no_op_of_a_sharded_prompt_adds_the_residual(length: int) -> None:
    """A product gives a partial sum, and all of them are added at once. What needs no other rank is fused as before."""
    layer_ops = LayerOps(Decoder(load("llama", "bf16")), BatchShape(1, length, 8))
    alone, sharded = (prompt_ops(layer_ops, GPUS["h200"], sharded=value) for value in (False, True))
    forms = [{op.case["epilogue"] for op in value if op.op == "linear"} for value in (alone, sharded)]
    assert "residual" in forms[0]
    assert forms[1] == forms[0] - {"residual"} | {"none"}
    assert not [op for op in sharded if op.op == "rmsnorm" and op.case["residual"]]
    assert {op.variant for op in sharded if op.op == "rmsnorm"} == {"rmsnorm_triton"}
