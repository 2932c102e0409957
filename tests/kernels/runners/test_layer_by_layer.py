"""Float32 logits of a model whose layers are made one at a time are those of the whole float32 model."""

from typing import Any

import pytest
import torch

from kernels import runners
from kernels.model.decoder import refusal
from kernels.model.layer_by_layer import float32_logits
from kernels.model.loading import skeleton
from tests.kernels.runners.engine_models import CONFIGS

KNOWN = {name: config for name, config in CONFIGS.items() if refusal(skeleton(config, "fp32")) is None}
CPU = torch.device("cpu")
IDS = torch.randint(3, 300, (3, 24), generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize("config", KNOWN.values(), ids=KNOWN)
def test_they_are_the_whole_models(config: dict[str, Any]) -> None:
    """With windows shorter than the sequences, experts, biases, and an embedding that is the LM head too."""
    model = runners.load(None, config, seed=7, generated=True, dtype="fp32", device="cpu")
    found = float32_logits(config, IDS, CPU, seed=7)
    torch.testing.assert_close(found, runners.runner("eager", model).logits(IDS), atol=1e-5, rtol=1e-5)
    assert (found - float32_logits(config, IDS, CPU, seed=8)).abs().max() > 0.1


def test_a_model_without_these_layers_is_refused_by_its_name() -> None:
    with pytest.raises(ValueError, match="no float32 logits layer by layer: model_type 'gpt2' is not one of"):
        float32_logits(CONFIGS["gpt2"], IDS, CPU)
