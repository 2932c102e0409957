"""The FLOPs that bound a request are some that it cannot do without."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from kernels.model.loading import skeleton
from kernels.model.model_case import model_case
from tests.kernels.runners.engine_models import CONFIGS, SPARSE, load


@pytest.mark.parametrize("name", ["llama", *SPARSE])
def test_a_models_floor_counts_no_product_that_a_prompt_does_without(name):
    """torch counts the same pass with the head for the last token alone, but all tokens in the last layer."""
    model = load(name)
    if name in SPARSE:
        model.set_experts_implementation("eager")
    with FlopCounterMode(display=False) as counted:
        model(torch.zeros(1, 64, dtype=torch.int64), logits_to_keep=1)
    layers, hidden = model.config.num_hidden_layers, model.config.hidden_size
    attention = 4 * layers * hidden * 64 * 64
    floor = model_case(model, name, "fp32", 1, 64, 1).flops
    assert (1 - 1.2 / layers) * (counted.get_total_flops() - attention) < floor < counted.get_total_flops()


@pytest.mark.parametrize("batch", [1, 8])
def test_a_step_of_a_mixture_reads_at_least_the_experts_of_one_token(batch):
    """Of 8 experts in 3 layers a token has 3, each of 3 · 48 · 64 parameters. Keys and values are the whole model's."""
    config = CONFIGS["qwen3-moe"]
    model = skeleton(config, "bf16")
    every = sum(parameter.numel() for parameter in model.parameters()) - config["vocab_size"] * config["hidden_size"]
    case = model_case(model, "qwen3-moe", "bf16", batch, 32, 8)
    assert case.parameters == every - 3 * 5 * 3 * 48 * 64
    assert case.bytes_per_token == 2 * case.parameters + 2 * 2 * batch * 3 * 2 * 32 * (32 + 8 / 2)


@pytest.mark.parametrize("change", [{"mlp_only_layers": [1]}, {"model_type": "qwen2_moe"}])
def test_a_mixture_whose_parameters_of_a_token_are_not_known_bounds_nothing(change):
    case = model_case(skeleton(CONFIGS["qwen3-moe"] | change, "bf16"), "other", "bf16", 1, 32, 8)
    assert (case.parameters, case.bytes_per_token, case.last_only) == (0, 0, None)
