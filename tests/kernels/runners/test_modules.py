"""Families without a decoder of ours: norms replaced where they are RMSNorms, projections of one input packed."""

from typing import Any

import pytest
import torch

from kernels import registry, runners
from kernels.hardware import GPUS
from kernels.model.bound_variants import BoundVariants
from kernels.model.loading import configuration
from kernels.ops import RmsNormCase
from kernels.plan import Plan, PlannedOp
from kernels.runners.eager import EagerRunner
from kernels.runners.modules import GROUPS, install_norms, pack_projections
from kernels.runners.sessions import BucketSession, positions
from tests.kernels.runners.engine_models import CONFIGS, SIZES
from tests.kernels.runners.planned_models import applied, load, planned

OLMO2 = {"model_type": "olmo2"}


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


def test_projections_of_one_input_become_one_product(random_ids: torch.Tensor) -> None:
    """Those with variants of their own stay separate, and norms that are not plain as they are."""
    assert install_norms(load("gemma3"), BoundVariants([], GPUS["cpu"])) == 0
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
    model = load("gemma3")
    inner = model.config.intermediate_size
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


FAMILIES: dict[str, dict[str, Any]] = {
    "starcoder2": CONFIGS["starcoder2"],
    "gpt2": CONFIGS["gpt2"],
    "qwen3-moe-mixed": CONFIGS["qwen3-moe"] | {"mlp_only_layers": [1]},
    "llama": CONFIGS["llama"],
}
"""The last one is run by the compact decoder."""
LONG_ROPE = {"rope_type": "longrope", "short_factor": [1.0] * 8, "long_factor": [4.0] * 8, "rope_theta": 10000.0}
LENGTHS = (100, 1, 64, 65, 118)


def kernels_runner(model: Any) -> Any:
    return runners.apply(model, Plan(model_digest="", gpu="cpu", runner="kernels", dtype="fp32"))


@pytest.mark.parametrize("name", FAMILIES)
def test_one_session_serves_prompts_of_any_length(name: str) -> None:
    model = load(FAMILIES[name])
    eager, runner = EagerRunner(load(FAMILIES[name])), kernels_runner(model)
    runner.prepare(2, 100, 20)
    session = runner._session
    generator = torch.Generator().manual_seed(2)
    for length in LENGTHS:
        ids = torch.randint(3, 300, (2, length), generator=generator)
        assert runner.generate(ids, 10).tokens == eager.generate(ids, 10).tokens, length
    assert runner._session is session
    prompts = session.prompts if name == "llama" else session
    assert sorted(prompts._graphs) == [64, 128]


def test_a_model_that_gives_every_logit_is_asked_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some take `logits_to_keep` for a number of last rows only."""
    model = load(FAMILIES["starcoder2"])
    forward = type(model).forward

    def without_rows(self: Any, logits_to_keep: Any = 0, **kwargs: Any) -> Any:
        rows = int(logits_to_keep) if isinstance(logits_to_keep, int) else 0
        return forward(self, logits_to_keep=rows, **kwargs)

    monkeypatch.setattr(type(model), "forward", without_rows)
    ids = torch.randint(3, 300, (1, 70), generator=torch.Generator().manual_seed(4))
    assert kernels_runner(model).generate(ids, 6).tokens == EagerRunner(model).generate(ids, 6).tokens


def test_a_prompt_is_not_filled_up_beyond_the_positions_that_there_are() -> None:
    model = load(CONFIGS["gpt2"] | {"n_positions": 120})
    ids = torch.randint(3, 300, (1, 110), generator=torch.Generator().manual_seed(4))
    session = BucketSession(model, 1, 110, 128)
    assert session.size(110) == 120
    assert session.size(40) == 64
    assert kernels_runner(model).generate(ids, 6).tokens == EagerRunner(model).generate(ids, 6).tokens


@pytest.mark.parametrize("name", ["llama", "gpt-oss"])
def test_a_rotation_scaled_for_all_lengths_ends_no_sequence(name: str) -> None:
    assert positions(configuration(CONFIGS[name])) == 512


def test_a_prompt_is_not_filled_up_to_where_its_rotation_changes() -> None:
    config = SIZES | {"model_type": "phi3", "original_max_position_embeddings": 90, "rope_scaling": LONG_ROPE}
    model = load(config)
    assert positions(model.config) == 90
    runner, eager = kernels_runner(model), EagerRunner(load(config))
    for length in (80, 100):
        ids = torch.randint(3, 300, (1, length), generator=torch.Generator().manual_seed(length))
        assert runner.generate(ids, 6).tokens == eager.generate(ids, 6).tokens
