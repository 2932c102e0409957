"""Models and runners for the tests that need a Hopper GPU."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from kernels import runners
from kernels.megakernel.program.shape import shape_of
from kernels.ops.sampling import sample_token
from tests.kernels.megakernel.tiny_models import GPU_CONFIGS, GPU_NEAR

PROMPT = 20
FAMILIES = GPU_CONFIGS | GPU_NEAR


def batches_of(*batches: int) -> list[Any]:
    """Each family with those of the batches that it is served for."""
    most = {family: shape_of(config).batch_most for family, config in FAMILIES.items()}
    return [pytest.param(family, batch) for family in FAMILIES for batch in batches if batch <= most[family]]


READ_TOGETHER = 2000
"""Tokens; a score of each with every key, which float32's attention keeps, must find room."""

FOR_FOUR = {
    "llama": {"num_key_value_heads": 4},
    "qwen2": {"hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 4},
    "qwen3": {},
}
"""What a model of GPU_CONFIGS has otherwise, so that four GPUs may share it."""


def _on(gpus: Sequence[int], name: str) -> Any:
    few = torch.cuda.device_count() < len(set(gpus))
    return pytest.param(gpus, id=name, marks=pytest.mark.skipif(few, reason=f"needs {len(gpus)} GPUs"))


PLACES = [_on([0, 0], "side-by-side"), _on([0, 1], "two-gpus"), _on([0, 1, 2, 3], "four-gpus")]
"""The GPUs of the ranks. `[0, 0]` needs one GPU: each rank has half of its SMs."""


def config_of(family: str, gpus: Sequence[int]) -> dict[str, Any]:
    """A configuration that so many ranks may share."""
    return GPU_CONFIGS[family] | (FOR_FOUR[family] if len(gpus) == 4 else {})


def models(config: dict[str, Any]) -> tuple[Any, Any]:
    """The bf16 model on the GPU and its float32 twin."""
    made = [
        runners.load(None, config, seed=0, generated=True, dtype=dtype, device="cuda") for dtype in ("bf16", "fp32")
    ]
    return made[0], made[1]


def runner_of(model: Any, **options: Any) -> Any:
    return runners.runner("megakernel", model, options)


@torch.no_grad()
def step_logits(runner: Any, ids: torch.Tensor) -> torch.Tensor:
    """As `runner.logits`, every position by a decode step, from an empty cache."""
    machine = runner._machine_for(ids)
    return torch.cat([runner._forced(machine, rows, 0) for rows in ids.to(machine.gpu).split(machine.layout.batch)])


@torch.no_grad()
def last_logits(model: Any, ids: torch.Tensor, count: int) -> torch.Tensor:
    """The model's logits at the last `count` of ids [batch, length], a long prompt read piece by piece; float32."""
    pieces = [*ids[:, :-count].split(READ_TOGETHER, dim=1), ids[:, -count:]]
    cache = None
    for piece in pieces:
        out = model(piece, past_key_values=cache, use_cache=True, logits_to_keep=piece.shape[1])
        cache = out.past_key_values
    return out.logits.float()


@torch.no_grad()
def inputs_of_layers(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """What goes into each layer and into the last norm, float32 [layers + 1, tokens, hidden] of one sequence."""
    states: list[torch.Tensor] = []
    modules = (*model.model.layers, model.model.norm)
    hooks = [
        module.register_forward_pre_hook(lambda _, given: states.append(given[0][0].float())) for module in modules
    ]
    model(ids)
    for hook in hooks:
        hook.remove()
    return torch.stack(states)


def assert_layers_are_near(own: torch.Tensor, model: Any, exact: Any, ids: torch.Tensor) -> None:
    """`own` [layers + 1, tokens, hidden] is as near to float32 as torch's bf16 in every layer.

    The compact decoder divides the residual stream by `residual_multiplier` where the model has one.
    """
    scale = getattr(model.config, "residual_multiplier", None) or 1
    truth, torchs = (inputs_of_layers(value, ids) / scale for value in (exact, model))
    assert own.shape == truth.shape
    for layer in range(len(own)):
        limit = 1.1 * (torchs[layer] - truth[layer]).norm() + 1e-6 * truth[layer].norm()
        assert (own[layer] - truth[layer]).norm() <= limit, layer


def assert_rule_draws(made: Any, logits: torch.Tensor, sampling: Sequence[Any]) -> None:
    """Each token `made` [count, batch] is the one that the rule chooses from the step's own logits."""
    rows = logits.cpu().numpy()
    for step in range(len(rows)):
        for b, how in enumerate(sampling):
            assert made[step, b] == sample_token(rows[step, b], how, step + 1), (step, how)


def launched(runner: Any, first: torch.Tensor, position: Any, count: int, **options: Any) -> Any:
    """Tokens [count, batch] of one launch by the runner's machine, and its logits when `options` ask for them."""
    from kernels.megakernel.host.machine import DecodeRequest
    from kernels.megakernel.runner import allocate_pinned

    machine = runner._machine
    memory, made = allocate_pinned(count * machine.layout.batch, -1)
    machine.launch(DecodeRequest(first, position, count, **options), made, runner._cancel[1])
    machine.check()
    tokens = made.reshape(count, -1).copy()
    del memory
    return tokens


def assert_near_with_best_tokens(runner: Any, prompt: torch.Tensor, count: int, exact: Any, rounded: Any) -> None:
    """Logits of a generation are as near to float32 as torch's of `rounded`, and each token is float32's best."""
    made = torch.tensor(runner.generate(prompt, count).tokens, device="cuda")
    ids = torch.cat([prompt, made], dim=1)
    with torch.no_grad():
        truth, torchs = exact(ids).logits, rounded(ids).logits.float()
    assert (runner.logits(ids).float() - truth).norm() <= 1.1 * (torchs - truth).norm()
    behind = truth[:, prompt.shape[1] - 1 : -1]
    chosen = behind.gather(-1, made[..., None])[..., 0]
    assert (behind.max(-1).values - chosen).max() < 0.05 * truth.std()


def assert_one_answer(runner: Any, prompt: torch.Tensor, count: int, times: int, options: Any = (None,)) -> None:
    """Each of `options` in turn gives the same tokens every time."""
    expected = [runner.generate(prompt, count, how).tokens for how in options]
    for i in range(times):
        assert runner.generate(prompt, count, options[i % len(options)]).tokens == expected[i % len(options)], i
