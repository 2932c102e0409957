"""The megakernel's precisions on a Hopper GPU: each is the model of its rounded weights; quality on trained ones."""

from typing import Any

import pytest
import torch

from kernels import runners
from kernels.quant.formats import FP8_LAYERS
from tests.kernels.megakernel.on_gpu import assert_near_with_best_tokens
from tests.kernels.megakernel.sample_model import on_its_text, sample
from tests.kernels.megakernel.tiny_models import GPU_CONFIGS, own_copy, with_rounded_weights
from workers.measuring import quality
from workers.measuring.allowed_rises import Tolerances

pytestmark = pytest.mark.gpu

PROMPT, TOKENS = 20, 16


def generated(family: str, dtype: str) -> Any:
    return runners.load(None, GPU_CONFIGS[family], seed=0, generated=True, dtype=dtype, device="cuda")


@pytest.mark.parametrize("batch", [1, 3, 4])
@pytest.mark.parametrize("family", ["llama", "llama-32", "qwen2"])
@pytest.mark.parametrize(
    ("weights", "method"),
    [
        ("int8", "nearest"),
        ("int4", "nearest"),
        ("fp8_layers", "nearest"),
        *((weights, method) for weights in ("fp8", "nvfp4") for method in ("nearest", "gptq")),
    ],
)
def test_it_is_the_model_of_the_rounded_weights(weights: str, method: str, family: str, batch: int) -> None:
    """Prompt and decode: as near to float32 as torch's bf16 model with the same rounded weights."""
    original = generated(family, "bf16")
    model, named = own_copy(original, weights), "fp8" if weights == FP8_LAYERS else weights
    before = [parameter.clone() for parameter in model.parameters()]
    rounded = with_rounded_weights(original, weights, method)
    exact = with_rounded_weights(original, weights, method, torch.float32)
    runner = runners.runner("megakernel", model, {"weights": named, "rounding": {"method": method}})
    assert runner.weights == weights
    prompt = torch.randint(0, model.config.vocab_size, (batch, PROMPT), device="cuda")
    assert_near_with_best_tokens(runner, prompt, TOKENS, exact, rounded)
    assert all(torch.equal(one, other) for one, other in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize(
    ("weights", "acceptable", "kl_least", "kl_most"),
    [("int8", True, 0.0, 0.0002), ("fp8", True, 1.0, 0.0005), ("nvfp4", False, 1.0, 0.005)],
)
def test_lower_precision_on_trained_weights(weights: str, acceptable: bool, kl_least: float, kl_most: float) -> None:
    """int8 costs less than torch's bf16 arithmetic. Of the 2 points allowed fp8 takes 1.3 at most, NVFP4 5."""
    runner = runners.runner("megakernel", sample("bf16", "cuda"), {"weights": weights})
    tokens, compared = on_its_text(runner, "cuda")
    judged = quality.judge(*compared, tokens, generated=False, allowed=Tolerances.stated(0.02))
    print(judged.sentence)
    assert kl_least * judged.kl_before < judged.kl_after < kl_most
    assert judged.acceptable == acceptable
