"""A mixture of experts on a GPU: the kernels runner under CUDA graphs is the model."""

from typing import Any

import pytest
import torch

from kernels import runners
from kernels.measure.gpu_entry import gpu_of
from kernels.model.bound_variants import BoundVariants
from kernels.model.decoder import Decoder
from kernels.model.experts import Experts, experts_of
from kernels.model.layer_cases import few_expert_cases
from kernels.ops import GroupedCase
from kernels.plan import Plan
from kernels.quant.absmax import quantise_absmax, values
from kernels.runners.defaults import TuningRunner
from kernels.runners.eager import EagerRunner
from kernels.runners.kernels_runner import KernelsRunner
from kernels.tune.plan_search import planned_op
from tests.kernels.runners.engine_models import CONFIGS, SPARSE

pytestmark = pytest.mark.gpu

SIZES: dict[str, Any] = {"hidden_size": 256, "head_dim": 64, "vocab_size": 1000, "moe_intermediate_size": 128}
EVERY = CONFIGS["qwen3-moe"] | SIZES | {"num_experts_per_tok": 8}
GPT_OSS = CONFIGS["gpt-oss"] | SIZES | {"num_experts_per_tok": 8, "intermediate_size": 128}
"""A token goes to all experts, so that rounding does not choose others and logits differ by rounding alone."""


def load(config: dict[str, Any], dtype: str) -> Any:
    return runners.load(None, config, seed=3, generated=True, dtype=dtype, device="cuda")


def ids_of(batch: int, length: int, vocabulary: int) -> torch.Tensor:
    return torch.randint(3, vocabulary, (batch, length), generator=torch.Generator().manual_seed(length)).cuda()


def relative(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one.float() - other.float()).norm() / other.float().norm())


@pytest.mark.parametrize("name", SPARSE)
def test_captured_tokens_are_those_of_transformers_in_float32(name: str) -> None:
    """Tokens choose some of the experts; no grouped product serves float32."""
    model, exact = load(CONFIGS[name], "fp32"), load(CONFIGS[name], "fp32")
    exact.set_experts_implementation("eager")
    plan = Plan(model_digest="", gpu=gpu_of(model.device).gpu_class, runner="kernels", dtype="fp32")
    made = runners.apply(model, plan)
    made.prepare(2, 40, 12)
    ids = ids_of(2, 40, 300)
    assert made.generate(ids, 12).tokens == EagerRunner(exact).generate(ids, 12).tokens


@pytest.mark.parametrize("variant", ["grouped_hopper", "torch_grouped_mm", ""])
def test_grouped_products_are_the_model(variant: str) -> None:
    """Also where no product is planned: torch's own is captured then."""
    model = load(EVERY, "bf16")
    cases = [GroupedCase(rows=8 * m, experts=8, n=n, k=k) for m in (2, 128) for n, k in ((256, 256), (256, 128))]
    plan = Plan(
        model_digest="",
        gpu=gpu_of(model.device).gpu_class,
        runner="kernels",
        ops=[planned_op(case, variant, {}) for case in cases if variant],
    )
    runner = runners.apply(model, plan)
    runner.prepare(2, 64, 40)
    ids = ids_of(2, 100, 1000)
    expected = EagerRunner(model).logits(ids)
    result = [runner.logits(ids) for _ in range(2)]
    assert relative(result[0], expected) < 0.03
    assert torch.equal(*result)


@pytest.mark.parametrize(("config", "weights"), [(EVERY, "int8"), (GPT_OSS, "mxfp4")], ids=["qwen3-moe", "gpt-oss"])
@torch.no_grad()
def test_experts_in_fewer_bits_are_the_rounded_model(config: dict[str, Any], weights: str) -> None:
    model = load(config, "bf16")
    for layer in model.model.layers:
        own = experts_of(model.config, layer.mlp)
        for w in (own.gate_up, own.down):
            w.copy_(values(quantise_absmax(w.flatten(0, 1), weights)).view_as(w))
    w = Decoder(model).layers[0].mlp
    assert isinstance(w, Experts)
    cases = [case.model_copy(update={"weights": weights}) for m in (2, 16) for case in few_expert_cases(w, m, "bf16")]
    variants = BoundVariants([planned_op(case, f"grouped_{weights}", {}) for case in cases], gpu_of(model.device))
    runner = KernelsRunner(model, {"weights": weights}, variants)
    runner.prepare(2, 16, 40)
    ids = ids_of(2, 50, 1000)
    expected = EagerRunner(model).logits(ids)
    result = [runner.logits(ids) for _ in range(2)]
    assert relative(result[0], expected) < 0.03
    assert torch.equal(*result)
    assert f"grouped_{weights}" in variants.names


@pytest.mark.parametrize("config", [EVERY, GPT_OSS], ids=["qwen3-moe", "gpt-oss"])
def test_it_chooses_by_itself_and_is_the_model(config, capsys, monkeypatch):
    monkeypatch.setattr("kernels.runners.defaults.TUNING_SECONDS", 2.0)
    monkeypatch.setattr("kernels.runners.defaults.CASE_RULE.seconds", 0.05)
    model = load(config, "bf16")
    runner = TuningRunner(model)
    runner.prepare(1, 64, 8)
    ids = ids_of(1, 70, 1000)
    assert relative(runner.logits(ids), EagerRunner(model).logits(ids)) < 0.03
    assert "grouped rows=8" in capsys.readouterr().err
    assert not [op for op in runner._variants._planned.values() if op[0].variant == "torch_grouped_loop"]


def test_the_routing_in_triton_is_torchs_on_the_chip() -> None:
    from kernels.model import experts, experts_triton

    for count, chosen, tokens in ((128, 8, 1), (128, 8, 2048), (64, 8, 300), (8, 2, 33)):
        w = experts.Experts(*(torch.empty(count, 1, device="cuda") for _ in range(3)), chosen, True, True)
        logits = torch.randn(tokens, count, device="cuda", generator=torch.Generator("cuda").manual_seed(tokens))
        (shares, numbers), (wanted, expected) = (
            value.route(logits.bfloat16().float(), w) for value in (experts_triton, experts)
        )
        best = [logits.bfloat16().float().gather(1, value.long()) for value in (numbers, expected)]
        assert torch.equal(*best)
        torch.testing.assert_close(shares, wanted, atol=1e-5, rtol=1e-4)
        for one, other in zip(
            experts_triton.order_by_expert(numbers, count), experts.order_by_expert(numbers.long(), count), strict=True
        ):
            assert torch.equal(one, other)
        y = torch.randn(tokens * chosen, 200, device="cuda").bfloat16()
        place = experts.order_by_expert(numbers.long(), count).inverse
        result, sums = (value.combine_experts(y, shares, place) for value in (experts_triton, experts))
        torch.testing.assert_close(result, sums, atol=0.02, rtol=0.02)
