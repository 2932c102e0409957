"""Which models the megakernel serves, and how it refuses the others."""

import pytest

from kernels.megakernel.program.shape import Unsupported, shape_of
from kernels.model_files.catalogue import entry, names
from tests.kernels.megakernel.published import CONFIGS, MIXTURES

REFUSED = {"tiny-mistral", "tiny-gemma", "tiny-gpt2", "tiny-bert", "tiny-qwen3-moe", *MIXTURES}


def test_it_serves_the_catalogue_but_for_other_families_and_windows() -> None:
    refused = set()
    for name in names():
        try:
            shape_of(entry(name)[0])
        except Unsupported:
            refused.add(name)
    assert refused == REFUSED


@pytest.mark.parametrize("name", CONFIGS)
def test_it_serves_what_it_promises(name: str) -> None:
    shape, config = shape_of(CONFIGS[name]), CONFIGS[name]
    assert shape.qkv_bias == (config["model_type"] == "qwen2")
    assert shape.qk_norm == (config["model_type"] == "qwen3")
    assert shape.qkv_rows == (shape.heads + 2 * shape.kv_heads) * shape.head_dim


def test_bytes_of_a_step_are_the_matrices_once() -> None:
    assert shape_of(CONFIGS["llama-3.2-1b"]).step_bytes == 2_471_493_632  # 1,235,746,816 weights in matrices


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model_type": "gemma"}, "model_type 'gemma'"),
        ({"model_type": "qwen3_moe", "num_experts": 128}, "qwen3_moe with 128 experts: the megakernel serves dense"),
        ({"model_type": "mixtral", "num_local_experts": 8}, "mixtral with 8 experts: the megakernel serves dense"),
        ({"head_dim": 96}, "head_dim 96"),
        ({"num_key_value_heads": 5}, "num_key_value_heads 5"),
        ({"hidden_size": 2056}, "hidden_size 2056"),
        ({"intermediate_size": 8200}, "intermediate_size 8200"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"attention_bias": True}, "attention_bias"),
        ({"model_type": "mistral", "sliding_window": 4096}, "sliding_window 4096"),
        ({"model_type": "qwen2", "sliding_window": 64, "use_sliding_window": True}, "sliding_window 64"),
    ],
)
def test_a_refusal_names_the_feature(change: dict, named: str) -> None:
    with pytest.raises(Unsupported, match=named):
        shape_of(CONFIGS["llama-3.2-1b"] | change)


def test_a_sliding_window_that_is_off_is_served() -> None:
    assert shape_of(CONFIGS["qwen2.5-1.5b"] | {"sliding_window": 4096, "use_sliding_window": False})
