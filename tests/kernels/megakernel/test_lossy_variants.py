"""The megakernel's variants in lower precision: what they serve, and what a plan holds for them."""

import pytest

from kernels import registry
from kernels.hardware import GPUS
from kernels.megakernel.program.weights import FORMATS
from kernels.ops import ModelCase
from kernels.runners.whole_model import WholeModel

NAMES = {name: "megakernel" if name == "bf16" else f"megakernel_{name}" for name in FORMATS}


def case(weights: str, batch: int = 1) -> ModelCase:
    return ModelCase(model="llama-3.2-1b", weights=weights, batch=batch, prompt=128, tokens=64)  # type: ignore[arg-type]


@pytest.mark.parametrize("weights", FORMATS)
def test_each_serves_its_own_precision(weights: str) -> None:
    variant = registry.variant(NAMES[weights])
    assert isinstance(variant, WholeModel)
    assert variant.lossy == (weights != "bf16")
    assert variant.options.get("weights", "bf16") == variant.weights == weights
    for other in FORMATS:
        assert (variant.serves(case(other), GPUS["h200"]) is None) == (other == weights)
    assert all(variant.serves(case(weights, batch), GPUS["h200"]) is None for batch in range(1, 9))
    for refusal, named in (
        (variant.serves(case(weights, batch=9), GPUS["h200"]), "batch is 9"),
        (variant.serves(case(weights), GPUS["a100"]), "Hopper"),
    ):
        assert refusal is not None
        assert named in refusal.reason
