"""Families without a decoder of ours: norms replaced where they are RMSNorms, projections of one input packed."""

from typing import Any

import pytest
import torch

from kernels import registry
from kernels.hardware import GPUS
from kernels.model.bound_variants import BoundVariants
from kernels.ops import RmsNormCase
from kernels.plan import PlannedOp
from kernels.runners.eager import EagerRunner
from kernels.runners.modules import GROUPS, install_norms, pack_projections
from tests.kernels.runners.engine_models import CONFIGS
from tests.kernels.runners.planned_models import applied, load, planned

OLMO2 = {"model_type": "olmo2"}
SIZES = {name: CONFIGS["llama-bias"][name] for name in CONFIGS["llama-bias"] if "_bias" not in name}


def norm_op(m: int, n: int) -> PlannedOp:
    return planned(RmsNormCase(m=m, n=n, dtype="fp32"), "torch_rmsnorm")


@pytest.mark.parametrize("config", [CONFIGS[name] for name in ("starcoder2", "gpt2")])
def test_a_kernels_plan_runs_any_family(config: dict[str, Any], random_ids: torch.Tensor) -> None:
    expected = EagerRunner(load(config)).logits(random_ids)
    runner = applied(load(config), [norm_op(1, 64), norm_op(20, 64)])
    runner.prepare(2, 26, 4)
    torch.testing.assert_close(runner.logits(random_ids), expected, atol=5e-4, rtol=1e-3)


def test_planned_norms_are_called(random_ids: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    variant, called = registry.variant("torch_rmsnorm"), []
    build = variant.build
    monkeypatch.setattr(variant, "build", lambda case, params: called.append(case) or build(case, params))
    model = load(SIZES | OLMO2)
    assert install_norms(model, BoundVariants([norm_op(26, 64)], GPUS["cpu"])) > 0
    model(random_ids[:1])
    assert called


def test_norms_that_are_not_plain_stay_as_they_are() -> None:
    assert install_norms(load("gemma3"), BoundVariants([], GPUS["cpu"])) == 0


def test_projections_of_one_input_become_one_product(random_ids: torch.Tensor) -> None:
    model, calls = load("gemma3"), []
    expected = model(random_ids).logits

    def linear(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        calls.append(len(w))
        return torch.nn.functional.linear(x, w, bias)

    layers = model.config.num_hidden_layers
    assert pack_projections(model, linear, lambda n, k: False) == len(GROUPS) * layers
    torch.testing.assert_close(model(random_ids).logits, expected, atol=1e-4, rtol=1e-4)
    assert len(calls) == len(GROUPS) * layers
    owned = model.model.layers[0].self_attn
    assert owned.q_proj.weight.untyped_storage().data_ptr() == owned.v_proj.weight.untyped_storage().data_ptr()


def test_projections_with_variants_of_their_own_stay_separate() -> None:
    model = load("gemma3")
    inner = model.config.intermediate_size
    layers = model.config.num_hidden_layers
    assert pack_projections(model, torch.nn.functional.linear, lambda n, k: n == inner) == layers


def test_projections_of_different_inputs_stay_right() -> None:
    class Cross(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q_proj, self.k_proj, self.v_proj = (torch.nn.Linear(8, 4) for _ in range(3))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
            return [self.q_proj(x), self.k_proj(y), self.v_proj(y)]

    module, x, y = Cross().requires_grad_(False), torch.randn(3, 8), torch.randn(3, 8)
    expected = module(x, y)
    pack_projections(module, torch.nn.functional.linear, lambda n, k: False)
    for _ in range(2):
        torch.testing.assert_close(module(x, y), expected)
