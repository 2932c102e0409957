"""The longest sequence that a configuration allows is the longest that the model itself takes."""

from typing import Any

import pytest
import torch

from kernels.model.loading import load
from kernels.model_files import longest_sequence
from kernels.model_files.positions import AFTER_PADDING

TINY = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "vocab_size": 300,
    "max_position_embeddings": 64,
    "attention_window": 8,
}


def longest_tokens(config: dict[str, Any]) -> int:
    found = longest_sequence(config)
    assert found is not None
    return found.tokens


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "bert"},
        *({"model_type": each, "pad_token_id": 1} for each in sorted(AFTER_PADDING)),
        {"model_type": "roberta"},
        {"model_type": "roberta", "pad_token_id": 4},
        {"model_type": "mpnet", "pad_token_id": 4},
    ],
    ids=str,
)
@torch.no_grad()
def test_the_model_takes_the_longest_sequence_and_no_longer_one(config):
    longest = longest_tokens(TINY | config)
    model = load(None, TINY | config, generated=True, dtype="fp32", device="cpu")
    model(input_ids=torch.full((1, longest), 7))
    with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds)|must match"):
        model(input_ids=torch.full((1, longest + 1), 7))


def test_rotary_positions_have_none_for_padding():
    esm = TINY | {"model_type": "esm", "pad_token_id": 1}
    assert longest_tokens(esm) == 62
    assert longest_tokens(esm | {"position_embedding_type": "rotary"}) == 64
    assert longest_sequence({"model_type": "mamba"}) is None
