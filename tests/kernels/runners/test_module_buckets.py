"""Families without a decoder of ours: prompts of any length run in the graphs of a few."""

from typing import Any

import pytest
import torch

from kernels import runners
from kernels.model.loading import configuration
from kernels.plan import Plan
from kernels.runners.eager import EagerRunner
from kernels.runners.sessions import BucketSession, positions
from tests.kernels.runners.engine_models import CONFIGS, SIZES, load

FAMILIES: dict[str, dict[str, Any]] = {
    "starcoder2": CONFIGS["starcoder2"],
    "gpt2": CONFIGS["gpt2"],
    "qwen3-moe-mixed": CONFIGS["qwen3-moe"] | {"mlp_only_layers": [1]},
}
LONG_ROPE = {"rope_type": "longrope", "short_factor": [1.0] * 8, "long_factor": [4.0] * 8, "rope_theta": 10000.0}
LENGTHS = (100, 1, 65, 118)


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
    assert sorted(session._graphs) == [64, 128]


def test_a_model_that_gives_every_logit_is_asked_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some take `logits_to_keep` for a number of last rows only."""
    model = load(FAMILIES["starcoder2"])
    forward = type(model).forward

    def without_rows(self: Any, logits_to_keep: Any = 0, **given: Any) -> Any:
        rows = int(logits_to_keep) if isinstance(logits_to_keep, int) else 0
        return forward(self, logits_to_keep=rows, **given)

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
