"""Small random models of each GGUF architecture: written as llama.cpp's converter does, and read back alike."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Type
from torch import Tensor

from kernels import runners
from kernels.dequantising.convert import convert
from kernels.model.decoder import refusal
from kernels.model_files import ModelRefused, inspect
from kernels.model_files.families import stored_experts
from kernels.model_files.gguf import read_gguf
from kernels.model_files.gguf_config import named
from tests.kernels.gguf_files import random_blocks
from tests.kernels.test_dequantising import mxfp4

SIZES = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 64}
SIZES |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 1024}
HEADS_OF_24 = {"head_dim": 24}
WINDOWED = HEADS_OF_24 | {"query_pre_attn_scalar": 256, "sliding_window": 32}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2}
EXPERTS_OF_GPT_OSS = {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 16, "sliding_window": 32}
LONG = {"rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.75}
LONG |= {"short_factor": [1.0, 1.125, 1.25, 1.5, 2.0, 3.0], "long_factor": [1.0, 1.5, 2.0, 4.0, 8.0, 16.0]}
MULTIPLIERS = {"attention_multiplier": 0.015625, "embedding_multiplier": 12.0, "residual_multiplier": 0.22}
FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "Llama": ("llama", "llama", {"attention_bias": True}),
    "Qwen2": ("qwen2", "qwen2", {}),
    "Qwen3": ("qwen3", "qwen3", HEADS_OF_24),
    "Qwen3-MoE": (
        "qwen3moe", "qwen3_moe", HEADS_OF_24 | EXPERTS | {"moe_intermediate_size": 96, "norm_topk_prob": True},
    ),
    "Gemma": ("gemma", "gemma", HEADS_OF_24),
    "Gemma 2": ("gemma2", "gemma2", WINDOWED),
    "Gemma 3": ("gemma3", "gemma3_text", WINDOWED),
    "Phi-3": ("phi3", "phi3", {"sliding_window": 32, "pad_token_id": 0}),
    "Phi-4-mini": (
        "phi3", "phi3", {"rope_parameters": LONG, "original_max_position_embeddings": 256, "pad_token_id": 0},
    ),
    "Granite": ("granite", "granite", MULTIPLIERS | {"logits_scaling": 8.0}),
    "OLMoE": ("olmoe", "olmoe", EXPERTS),
    "Mixtral": ("llama", "mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "SmolLM3": ("smollm3", "smollm3", {"num_hidden_layers": 4, "pad_token_id": 0}),
    "gpt-oss": ("gpt-oss", "gpt_oss", EXPERTS_OF_GPT_OSS),
}  # fmt: skip
BASES = {"gemma3_text": 1_000_000.0, "mixtral": 1_000_000.0, "smollm3": 2_000_000.0, "gpt_oss": 150_000.0}
"""Of rotary embeddings, where transformers' default is not 10,000."""
IDS = torch.arange(300)[None] % 64


def random_model(model_type: str, **kwargs: Any) -> Any:
    config = SIZES | {"model_type": model_type, "tie_word_embeddings": "gemma" in model_type} | kwargs
    model = runners.load(None, config, generated=True, dtype="bf16", device="cpu")
    generator = torch.Generator().manual_seed(7)
    for parameter in model.parameters():
        parameter.data.copy_(torch.randint(-50, 50, parameter.shape, generator=generator) / 256)
    return model


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_that_becomes_a_gguf_file_comes_back(tmp_path: Path, family: str) -> None:
    arch, model_type, given = FAMILIES[family]
    model = random_model(model_type, **given)
    comes_back(write_model(tmp_path / "model.gguf", arch, model), model, tmp_path / "plain")


def comes_back(path: Path, model: Any, folder: Path) -> Any:
    facts = inspect({path.name: path})
    assert facts.parameters == sum(parameter.numel() for parameter in model.parameters())
    folder.mkdir()
    convert({path.name: path}, folder)
    read = runners.load(folder, json.loads((folder / "config.json").read_text()), dtype="bf16", device="cpu")
    theirs, ours = model.state_dict(), read.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert torch.equal(read(IDS).logits, model(IDS).logits), "the configuration is the same where it matters"
    assert refusal(read) is None
    return read


def write_model(path: Path, arch: str, model: Any, blocks: dict[str, np.ndarray] | None = None) -> Path:
    """The model as llama.cpp would store it; `blocks` are tensors in MXFP4 by GGUF's names."""
    config = model.config
    writer = gguf.GGUFWriter(path, arch)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if arch != "gemma":
        writer.add_rope_freq_base(BASES.get(config.model_type, 10_000.0))
    add_own_fields(writer, config)
    for name, weight in model.state_dict().items():
        if name != "lm_head.weight" or not config.tie_word_embeddings:
            for stored, tensor in as_stored(arch, name, weight, config):
                if blocks is None or stored not in blocks:
                    writer.add_tensor(stored, np.ascontiguousarray(tensor.float().numpy()))
    for stored, content in (blocks or {}).items():
        writer.add_tensor(stored, content, raw_dtype=Type.MXFP4)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add_own_fields(writer: gguf.GGUFWriter, config: Any) -> None:
    head_dim = getattr(config, "head_dim", None)
    if head_dim and config.model_type not in ("llama", "granite"):
        writer.add_key_length(head_dim)
    if window := getattr(config, "sliding_window", None):
        writer.add_sliding_window(window)
    if experts := getattr(config, "num_local_experts", None) or getattr(config, "num_experts", None):
        writer.add_expert_count(experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
    if config.model_type == "qwen3_moe":
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if config.model_type == "granite":
        writer.add_attention_scale(config.attention_multiplier)
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_logit_scale(config.logits_scaling)
    if config.model_type == "gpt_oss":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(32.0)
        writer.add_rope_scaling_orig_ctx_len(4096)
    if config.model_type == "phi3":
        rope = config.rope_parameters
        writer.add_rope_dimension_count(int(16 * rope.get("partial_rotary_factor", 1)))
        writer.add_rope_scaling_orig_ctx_len(config.original_max_position_embeddings)
        if not config.sliding_window:
            writer.add_sliding_window(0)
        for name in ("long", "short") if "long_factor" in rope else ():
            writer.add_tensor(f"rope_factors_{name}.weight", np.array(rope[f"{name}_factor"], np.float32))


def as_stored(arch: str, name: str, weight: Tensor, config: Any) -> Iterator[tuple[str, Tensor]]:
    """A weight of transformers by GGUF's names of what it becomes."""
    number = next(number for number, known in gguf.MODEL_ARCH_NAMES.items() if known == arch)
    names = gguf.get_tensor_name_map(number, config.num_hidden_layers)
    if ".mlp.experts." in name:
        yield from experts_as_stored(name, weight, alternating=arch == "gpt-oss")
        return
    if name.endswith("sinks"):
        name += ".weight"
    stem, _, kind = name.rpartition(".")
    if arch.startswith("gemma") and "norm" in name:
        weight = weight.float() + 1
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    if arch in ("llama", "granite", "smollm3") and (count := heads.get(stem.rpartition(".")[2])):
        weight = torch.cat([neighbours(head) for head in weight.chunk(count)])
    yield f"{names.get_name(stem)}.{kind}", weight


def neighbours(rows: Tensor) -> Tensor:
    """The rows of a head with the two that are rotated together, which lie half a head apart, side by side."""
    return torch.stack([rows[at + half] for at in range(len(rows) // 2) for half in (0, len(rows) // 2)])


def experts_as_stored(name: str, weight: Tensor, alternating: bool) -> Iterator[tuple[str, Tensor]]:
    layer, kind = name.split(".")[2], "bias" if name.endswith("_bias") else "weight"
    if alternating and kind == "weight":
        weight = weight.mT
    if "down_proj" in name:
        yield f"blk.{layer}.ffn_down_exps.{kind}", weight
        return
    half = weight.shape[1] // 2
    rows = (range(0, 2 * half, 2), range(1, 2 * half, 2)) if alternating else (range(half), range(half, 2 * half))
    for part, chosen in zip(("gate", "up"), rows, strict=True):
        yield f"blk.{layer}.ffn_{part}_exps.{kind}", weight[:, list(chosen)]


def test_factors_that_the_family_does_not_have_are_refused(tmp_path: Path) -> None:
    arch, model_type, given = FAMILIES["Phi-4-mini"]
    path = write_model(tmp_path / "model.gguf", arch, random_model(model_type, **given))
    header, config = read_gguf(path.name, path), inspect({path.name: path}).config
    renamed = {"rope_factors_long.weight": "rope_freqs.weight"}
    tensors = [replace(tensor, name=renamed.get(tensor.name, tensor.name)) for tensor in header.tensors]
    with pytest.raises(ModelRefused, match=r"rope_freqs\.weight: the tensor is none of a phi3 model's"):
        named(replace(header, tensors=tensors), config, path.name)


def test_experts_of_another_size_are_refused(tmp_path: Path) -> None:
    arch, model_type, given = FAMILIES["Mixtral"]
    model = random_model(model_type, **given)
    experts = model.model.layers[1].mlp.experts
    experts.down_proj = torch.nn.Parameter(experts.down_proj[:, :, :64], requires_grad=False)
    path = write_model(tmp_path / "model.gguf", arch, model)
    wrong = r"blk.1.ffn_down_exps.weight: the shape is \[4, 64, 64\], but the metadata imply \[4, 64, 128\]"
    with pytest.raises(ModelRefused, match=wrong):
        inspect({path.name: path})


def test_experts_of_gpt_oss_in_mxfp4_keep_their_values_and_their_name(tmp_path: Path) -> None:
    """Where all experts are in MXFP4, so that plans may multiply by their codes."""
    arch, model_type, given = FAMILIES["gpt-oss"]
    model = random_model(model_type, **given)
    blocks: dict[str, np.ndarray] = {}
    for layer, module in enumerate(model.model.layers):
        experts, values = module.mlp.experts, {}
        for seed, (part, rows, columns) in enumerate((("gate", 128, 64), ("up", 128, 64), ("down", 64, 128))):
            stored = random_blocks((4, rows, columns), Type.MXFP4, seed + 3 * layer)
            blocks[f"blk.{layer}.ffn_{part}_exps.weight"] = stored
            numbers = [number for block in stored.reshape(-1, 17) for number in mxfp4(block.tobytes())]
            values[part] = torch.tensor(np.array(numbers)).view(4, rows, columns).mT
        experts.down_proj.data.copy_(values["down"])
        for first, part in enumerate(("gate", "up")):
            experts.gate_up_proj.data[:, :, first::2] = values[part].bfloat16()
    path = write_model(tmp_path / "model.gguf", arch, model, blocks)
    assert inspect({path.name: path}).quantised.startswith("GGUF (F32, MXFP4)")
    assert stored_experts(comes_back(path, model, tmp_path / "plain").config.to_dict()) == "mxfp4"
    some = {name: content for name, content in blocks.items() if "down" in name}
    path = write_model(tmp_path / "others.gguf", arch, model, some)
    assert stored_experts(inspect({path.name: path}).config) == ""
    next(iter(blocks.values()))[0, 0, 17] = 255
    path = write_model(tmp_path / "no number.gguf", arch, model, blocks)
    (tmp_path / "none").mkdir()
    with pytest.raises(ModelRefused, match="the scales are not all numbers"):
        convert({path.name: path}, tmp_path / "none")
