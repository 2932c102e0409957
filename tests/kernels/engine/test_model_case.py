"""The FLOPs that bound a request are some that it cannot do without."""

import torch
from torch.utils.flop_counter import FlopCounterMode

from kernels import engine
from kernels.engine.model_case import model_case
from tests.kernels.engine.engine_models import CONFIGS


def test_a_models_floor_counts_no_product_that_a_prompt_does_without():
    """torch counts the same pass with the head for the last token alone, but all tokens in the last layer."""
    model = engine.load(None, CONFIGS["llama"], seed=3, generated=True, dtype="fp32", device="cpu")
    with FlopCounterMode(display=False) as counted:
        model(torch.zeros(1, 64, dtype=torch.int64), logits_to_keep=1)
    layers, hidden = model.config.num_hidden_layers, model.config.hidden_size
    attention = 4 * layers * hidden * 64 * 64
    floor = model_case(model, "llama", "fp32", 1, 64, 1).flops
    assert (1 - 1.2 / layers) * (counted.get_total_flops() - attention) < floor < counted.get_total_flops()
