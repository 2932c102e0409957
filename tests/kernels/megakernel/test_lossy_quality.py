"""What rounding costs the trained sample model, by the workbench's own measure: float32 on the model's own text."""

import pytest

from kernels import engine
from tests.kernels.megakernel.sample_model import on_its_text, sample
from tests.kernels.megakernel.tiny_models import with_rounded_weights
from workers.stages import quality


@pytest.mark.parametrize(
    ("weights", "acceptable", "kl_most", "disagreement_most"),
    [("fp8", True, 0.0005, 0.025), ("nvfp4", False, 0.005, 0.065)],
)
def test_the_sample_model_rounded(weights: str, acceptable: bool, kl_most: float, disagreement_most: float) -> None:
    """A rise of the disagreement by a point, which a workload allows unless it says otherwise, lets fp8 pass."""
    rounded = with_rounded_weights(sample("bf16", "cpu"), weights)
    tokens, compared = on_its_text(engine.runner("eager", rounded), "cpu")
    found = quality.judge(*compared, tokens, generated=False, largest_loss=0.01)
    assert found.tokens == quality.LEAST_TOKENS
    assert found.kl_before < found.kl_after < kl_most
    assert found.top1_before < found.top1_after < disagreement_most
    assert found.acceptable == acceptable
