"""What rounding the weights costs the trained sample model, by the workbench's own measure on the model's own text."""

import copy
from typing import Any

import pytest

from kernels import engine
from kernels.engine import Runner
from tests.kernels.megakernel.sample_model import on_its_text, sample
from tests.kernels.megakernel.tiny_models import with_rounded_weights
from workers.measuring import quality

ALLOWED = 0.03
"""A rise of the disagreement above that of fp8 weights (1.8 points) and below that of NVFP4 weights (4.9 points)."""


def in_float32(model: Any) -> Runner:
    """A runner of the model's weights as they are, computed in float32.

    bf16 products round differently from one processor to the next, which moves the disagreement by half a point.
    float32 products differ by too little to change the most likely token of more than a few in thousands.
    """
    return engine.runner("eager", copy.deepcopy(model).float())


@pytest.mark.parametrize(
    ("weights", "acceptable", "kl_most", "disagreement_most"),
    [("fp8", True, 0.0005, 0.025), ("nvfp4", False, 0.005, 0.065)],
)
def test_the_sample_model_rounded(weights: str, acceptable: bool, kl_most: float, disagreement_most: float) -> None:
    original = sample("bf16", "cpu")
    after = in_float32(with_rounded_weights(original, weights))
    tokens, compared = on_its_text(after, "cpu", before=in_float32(original))
    found = quality.judge(*compared, tokens, generated=False, largest_loss=ALLOWED)
    assert found.tokens == quality.LEAST_TOKENS
    assert found.kl_before < found.kl_after < kl_most
    assert found.top1_before < found.top1_after < disagreement_most
    assert found.acceptable == acceptable
