"""The kernels runner under CUDA graphs on a GPU: overlapping launches, buckets, other families."""

from typing import Any

import pytest
import torch

from kernels import runners
from kernels.measure.gpu_entry import gpu_of
from kernels.model.decoder import Decoder
from kernels.model.layer_cases import attention_case
from kernels.model.layer_ops import BatchShape, LayerOps
from kernels.model.prompt_ops import prompt_ops
from kernels.ops import Case, LinearCase, LmHeadCase, RopeCase, StepAttentionCase
from kernels.plan import Plan
from kernels.runners.defaults import TuningRunner
from kernels.runners.eager import EagerRunner
from kernels.tune.plan_search import planned_op
from tests.kernels.runners.engine_models import CONFIGS

pytestmark = pytest.mark.gpu

WIDE: dict[str, Any] = CONFIGS["qwen2"] | {"hidden_size": 256, "intermediate_size": 512, "vocab_size": 1000}


def load(config: dict[str, Any] = WIDE) -> Any:
    return runners.load(None, config, seed=3, generated=True, dtype="bf16", device="cuda")


def relative(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one.float() - other.float()).norm() / other.float().norm())


def fused_step(batch: int, capacity: int) -> list[tuple[Case, str]]:
    m = batch
    return [
        (LinearCase(m=m, n=512, k=256, epilogue="rmsnorm_scale_bias"), "skinny"),
        (LinearCase(m=m, n=256, k=256, epilogue="residual"), "skinny"),
        (LinearCase(m=m, n=512, k=256, epilogue="rmsnorm_scale_swiglu"), "skinny"),
        (LinearCase(m=m, n=256, k=512, epilogue="residual"), "skinny"),
        (StepAttentionCase(batch=batch, heads=4, kv_heads=2, head_dim=64, kv_len=capacity), "step_hopper"),
        (RopeCase(batch=batch, q_len=64, heads=4, kv_heads=2, head_dim=64, append=True), "rope_triton"),
        (LmHeadCase(m=m, vocab=1000, k=256), "lm_head_skinny"),
    ]


@pytest.mark.parametrize("batch", [1, 3])
def test_a_step_of_five_overlapping_kernels_a_layer_is_the_model(batch: int) -> None:
    model = load()
    ops = [planned_op(case, name, {}) for case, name in fused_step(batch, 192)]
    assert all(op.params.get("pdl") for op in ops if op.variant == "skinny")
    plan = Plan(model_digest="", gpu=gpu_of(model.device).gpu_class, runner="kernels", ops=ops)
    runner = runners.apply(model, plan)
    runner.prepare(batch, 100, 60)
    ids = torch.randint(3, 1000, (batch, 150), generator=torch.Generator().manual_seed(1)).cuda()
    expected = EagerRunner(model).logits(ids)
    result = [runner.logits(ids) for _ in range(3)]
    assert relative(result[0], expected) < 0.03
    assert all(torch.equal(result[0], item) for item in result[1:])
    assert runner.generate(ids[:, :100], 40).tokens == runner.generate(ids[:, :100], 40).tokens


@pytest.mark.parametrize("name", ["gemma2", "glm4", "smollm3", "phi3-part"])
def test_further_families_are_the_model(name: str) -> None:
    """By the usual ops of prompts, and Triton's attention in steps, which has a soft cap."""
    sizes = {"hidden_size": 256, "intermediate_size": 512, "vocab_size": 1000}
    sizes |= {"head_dim": 64, "query_pre_attn_scalar": 64}
    model = load(CONFIGS[name] | sizes)
    compact, gpu = Decoder(model), gpu_of(model.device)
    steps = [attention_case(shape, "decode", 1, 1, 192, "bf16") for shape in dict.fromkeys(compact.shapes)]
    ops = prompt_ops(LayerOps(compact, BatchShape(1, 128, 60)), gpu)
    ops += [planned_op(case, "decode_split", {}) for case in steps]
    runner = runners.apply(model, Plan(model_digest="", gpu=gpu.gpu_class, runner="kernels", ops=ops))
    runner.prepare(1, 128, 60)
    ids = torch.randint(3, 1000, (1, 180), generator=torch.Generator().manual_seed(1)).cuda()
    expected = EagerRunner(load(CONFIGS[name] | sizes)).logits(ids)
    assert relative(runner.logits(ids), expected) < 0.03
    assert {"flash_triton", "decode_split"} <= runner._variants.names


def test_prompts_of_any_length_are_their_own() -> None:
    model = load()
    ops = [planned_op(case, name, {}) for case, name in fused_step(1, 192)]
    plan = Plan(model_digest="", gpu=gpu_of(model.device).gpu_class, runner="kernels", ops=ops)
    runner = runners.apply(model, plan)
    runner.prepare(1, 128, 60)
    for length in (1, 63, 64, 65, 100):
        ids = torch.randint(3, 1000, (1, length), generator=torch.Generator().manual_seed(length)).cuda()
        done = runner.generate(ids, 2).tokens[0]
        fed = torch.cat([ids, torch.tensor([done], device="cuda")], dim=1)[:, :-1]
        best = EagerRunner(model).logits(fed)[0, -2:].float()
        chosen = best.gather(1, torch.tensor(done, device="cuda")[:, None])[:, 0]
        assert float((best.max(-1).values - chosen).max()) < 0.1, length


def test_it_chooses_by_itself_and_is_the_model(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr("kernels.runners.defaults.TUNING_SECONDS", 2.0)
    monkeypatch.setattr("kernels.runners.defaults.CASE_RULE.seconds", 0.05)
    model = load()
    runner = TuningRunner(model)
    runner.prepare(1, 64, 8)
    ids = torch.randint(3, 1000, (1, 70), generator=torch.Generator().manual_seed(1)).cuda()
    assert relative(runner.logits(ids), EagerRunner(model).logits(ids)) < 0.03
    assert "a decode step: " in capsys.readouterr().err


def test_other_families_run_captured() -> None:
    model = runners.load(None, CONFIGS["gemma3"], seed=3, generated=True, dtype="fp32", device="cuda")
    exact = runners.load(None, CONFIGS["gemma3"], seed=3, generated=True, dtype="fp32", device="cuda")
    runner = runners.apply(model, Plan(model_digest="", gpu="h200", runner="kernels", dtype="fp32"))
    runner.prepare(1, 100, 8)
    session = runner._session
    for length in (100, 20, 64, 65, 1):
        prompt = torch.randint(3, 300, (1, length), generator=torch.Generator().manual_seed(length)).cuda()
        assert runner.generate(prompt, 8).tokens == EagerRunner(exact).generate(prompt, 8).tokens, length
    assert runner._session is session
