"""The tables of tensors against the models that transformers really builds, on the meta device."""

from typing import Any

import pytest
import torch
import transformers

from kernels.model_files import ModelRefused, inspect_config
from kernels.model_files.families import FAMILIES, estimated_parameters, head_shape, is_tied

CLASSES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "olmoe": "OlmoeForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "gemma": "GemmaForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
    "granite": "GraniteForCausalLM",
    "smollm3": "SmolLM3ForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "gpt2": "GPT2LMHeadModel",
    "bert": "BertForMaskedLM",
}
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 96,
    "pad_token_id": None,
}
GPT2_SIZES: dict[str, Any] = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 96}
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "llama": [{}, {"attention_bias": True, "mlp_bias": True}, {"tie_word_embeddings": True}, {"head_dim": 16}],
    "qwen3": [{"head_dim": 8}, {}, {"attention_bias": True}],
    "qwen3_moe": [
        {"head_dim": 8},
        {"attention_bias": True, "num_experts": 6, "moe_intermediate_size": 24},
        {"num_local_experts": 6, "mlp_only_layers": [0]},
        {"num_experts": 6, "decoder_sparse_step": 2},
    ],
    "mixtral": [{}, {"num_local_experts": 3, "head_dim": 16}],
    "olmoe": [{}, {"num_experts": 5}],
    "gpt_oss": [{}, {"num_local_experts": 5, "head_dim": 16, "attention_bias": False}],
    "gemma": [{}, {"head_dim": 8}, {"tie_word_embeddings": False}],
    "gpt2": [{}, {"n_inner": 80}],
}


def built(config: dict[str, Any]) -> torch.nn.Module:
    model_type = config["model_type"]
    wanted = transformers.CONFIG_MAPPING[model_type].from_dict(dict(config))
    with torch.device("meta"):
        return getattr(transformers, CLASSES[model_type])(wanted)


def cases() -> list[tuple[str, dict[str, Any]]]:
    found = []
    for model_type in FAMILIES:
        sizes = GPT2_SIZES if model_type == "gpt2" else SIZES
        for change in VARIANTS.get(model_type, [{}]):
            found.append((model_type, sizes | change | {"model_type": model_type}))
    return found


@pytest.mark.parametrize(("model_type", "config"), cases())
def test_the_table_is_what_transformers_builds(model_type: str, config: dict[str, Any]) -> None:
    family = FAMILIES[model_type]
    model = built(config)
    real = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    table = {family.prefix + name: shape for name, shape in family.shapes(config)}
    if family.head and not is_tied(config):
        table[family.head] = head_shape(config)
    if model_type == "bert":
        real = {name: shape for name, shape in real.items() if name in table}
    assert table == real


@pytest.mark.parametrize("model_type", sorted(set(FAMILIES) - {"bert"}))
def test_the_estimate_counts_every_parameter(model_type: str) -> None:
    config = (GPT2_SIZES if model_type == "gpt2" else SIZES) | {"model_type": model_type}
    assert estimated_parameters(config) == sum(parameter.numel() for parameter in built(config).parameters())


@pytest.mark.parametrize("dense", [3, ["1"], {"0": 1}])
def test_the_dense_layers_of_a_mixture_are_a_list_of_numbers(dense: Any) -> None:
    config = SIZES | {"model_type": "qwen3_moe", "mlp_only_layers": dense}
    with pytest.raises(ModelRefused, match="mlp_only_layers: the field must be a list of numbers of layers"):
        inspect_config(config)


def test_a_foreign_family_is_estimated_within_a_third() -> None:
    config = {"model_type": "phimoe", "num_local_experts": 4} | SIZES | {"hidden_size": 256, "intermediate_size": 512}
    wanted = transformers.CONFIG_MAPPING["phimoe"].from_dict(dict(config))
    with torch.device("meta"):
        real = sum(parameter.numel() for parameter in transformers.PhimoeForCausalLM(wanted).parameters())
    assert estimated_parameters(config) == pytest.approx(real, rel=1 / 3)
