"""Quantised checkpoints: every format against a dequantiser of its own, which goes from weight to weight."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from kernels.dequantising.convert import convert
from kernels.model_files import ModelRefused, files_at, inspect, is_quantised
from kernels.model_files.families import FAMILIES
from tests.kernels.model_folders import LLAMA

F32 = np.float32
HIDDEN, INNER, VOCABULARY = 96, 160, 64
CONFIG = LLAMA | {"hidden_size": HIDDEN, "intermediate_size": INNER, "vocab_size": VOCABULARY, "num_attention_heads": 6}
CONFIG |= {"num_hidden_layers": 1, "tie_word_embeddings": False, "torch_dtype": "float16"}
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
INTERLEAVED = {4: (0, 2, 4, 6, 1, 3, 5, 7), 8: (0, 2, 1, 3)}
Made = tuple[dict[str, torch.Tensor], Callable[[int, int], Any]]
"""The tensors that a weight is stored in, and its value at an output and an input."""


class Draw:
    """Random tensors of one weight of [outputs, inputs]."""

    def __init__(self, outputs: int, inputs: int) -> None:
        self.outputs, self.inputs = outputs, inputs
        self.generator = torch.Generator().manual_seed(outputs + inputs)

    def words(self, *shape: int) -> torch.Tensor:
        return torch.randint(-(2**31), 2**31, shape, generator=self.generator).to(torch.int32)

    def scales(self, *shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
        drawn = torch.randn(shape, generator=self.generator) * 0.01
        drawn.view(-1)[::7] = 0  # a group of zeros
        return drawn.to(dtype)

    def order(self, groups: int) -> torch.Tensor:
        return torch.randint(0, groups, (self.inputs,), generator=self.generator).to(torch.int32)

    def bytes(self, *shape: int) -> torch.Tensor:
        return torch.randint(0, 256, shape, generator=self.generator).to(torch.uint8)


def code(words: np.ndarray, at: tuple[int, int], dim: int, bits: int) -> int:
    """The code at a place of a table whose words hold several along one dimension, the lowest bits first."""
    word, place = divmod(at[dim], 32 // bits)
    found = int(words[(word, at[1]) if dim == 0 else (at[0], word)]) & 0xFFFFFFFF
    return found >> bits * place & (1 << bits) - 1


def gptq(draw: Draw, bits: int, group: int, ordered: bool, version: str = "gptq") -> Made:
    groups, per_word = -(-draw.inputs // group), 32 // bits
    parts = {
        "qweight": draw.words(draw.inputs // per_word, draw.outputs),
        "qzeros": draw.words(groups, draw.outputs // per_word),
        "scales": draw.scales(groups, draw.outputs),
    }
    if ordered:
        parts["g_idx"] = draw.order(groups)
    stored = {name: part.numpy() for name, part in parts.items()}

    def value(output: int, at: int) -> Any:
        mine = stored["g_idx"][at] if ordered else at // group
        zero = code(stored["qzeros"], (mine, output), 1, bits) + (version == "gptq")
        return F32(code(stored["qweight"], (at, output), 0, bits) - zero) * F32(stored["scales"][mine, output])

    return parts, value


def awq(draw: Draw, bits: int, group: int) -> Made:
    groups, per_word = draw.inputs // group, 32 // bits
    parts = {
        "qweight": draw.words(draw.inputs, draw.outputs // per_word),
        "qzeros": draw.words(groups, draw.outputs // per_word),
        "scales": draw.scales(groups, draw.outputs),
    }
    stored = {name: part.numpy() for name, part in parts.items()}

    def place(output: int) -> int:
        word, number = divmod(output, per_word)
        return word * per_word + INTERLEAVED[bits].index(number)

    def value(output: int, at: int) -> Any:
        zero = code(stored["qzeros"], (at // group, place(output)), 1, bits)
        own = code(stored["qweight"], (at, place(output)), 1, bits)
        return F32(own - zero) * F32(stored["scales"][at // group, output])

    return parts, value


def packed(draw: Draw, bits: int, groups: int, zeros: bool, ordered: bool) -> Made:
    per_word, middle = 32 // bits, 1 << bits - 1
    parts = {
        "weight_packed": draw.words(draw.outputs, draw.inputs // per_word),
        "weight_scale": draw.scales(draw.outputs, groups),
        "weight_shape": torch.tensor([draw.outputs, draw.inputs]),
    }
    if zeros:
        parts["weight_zero_point"] = draw.words(-(-draw.outputs // per_word), groups)
    if ordered:
        parts["weight_g_idx"] = draw.order(groups)
    stored = {name: part.numpy() for name, part in parts.items()}

    def value(output: int, at: int) -> Any:
        group = stored["weight_g_idx"][at] if ordered else at // (draw.inputs // groups)
        zero = code(stored["weight_zero_point"], (output, group), 0, bits) - middle if zeros else 0
        own = code(stored["weight_packed"], (output, at), 1, bits) - middle
        return F32(own - zero) * F32(stored["weight_scale"][output, group])

    return parts, value


def int8(draw: Draw, groups: int, zeros: bool) -> Made:
    parts = {
        "weight": draw.bytes(draw.outputs, draw.inputs).view(torch.int8),
        "weight_scale": draw.scales(draw.outputs, groups),
    }
    if zeros:
        parts["weight_zero_point"] = draw.bytes(draw.outputs, groups).view(torch.int8)
    stored = {name: part.numpy() for name, part in parts.items()}

    def value(output: int, at: int) -> Any:
        group = at // (draw.inputs // groups)
        zero = int(stored["weight_zero_point"][output, group]) if zeros else 0
        return F32(int(stored["weight"][output, at]) - zero) * F32(stored["weight_scale"][output, group])

    return parts, value


def e4m3(byte: int) -> float:
    exponent, fraction = byte >> 3 & 15, byte & 7
    size = fraction / 8 * 2.0**-6 if exponent == 0 else (1 + fraction / 8) * 2.0 ** (exponent - 7)
    return -size if byte & 128 else size


def fp8(draw: Draw, shape: tuple[int, ...], block: tuple[int, int], name: str = "weight_scale") -> Made:
    codes = draw.bytes(draw.outputs, draw.inputs)
    codes[codes & 127 == 127] = 128  # NaN becomes -0
    scale = draw.scales(*shape, dtype=torch.float32)
    parts = {"weight": codes.view(torch.float8_e4m3fn), name: scale, "input_scale": draw.scales()}
    table = scale.numpy().reshape(-(-draw.outputs // block[0]), -(-draw.inputs // block[1]))
    return parts, lambda output, at: F32(e4m3(int(codes[output, at]))) * table[output // block[0], at // block[1]]


def compressed(bits: int = 8, kind: str = "int", **more: Any) -> dict[str, Any]:
    weights = {"num_bits": bits, "type": kind, **more}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": weights}}}


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32}
FP8_BLOCKS = {"quant_method": "fp8", "weight_block_size": [64, 64]}
FORMATS: dict[str, tuple[dict[str, Any], Callable[[Draw], Made], str]] = {
    "GPTQ": (GPTQ, lambda draw: gptq(draw, 4, 32, False), "GPTQ (4 bits)"),
    "GPTQ in the order of activations": (
        GPTQ | {"desc_act": True},
        lambda draw: gptq(draw, 4, 32, True),
        "GPTQ (4 bits)",
    ),
    "GPTQ, 8 bits, a group": (
        {"quant_method": "gptq", "bits": 8, "group_size": -1},
        lambda draw: gptq(draw, 8, draw.inputs, False),
        "GPTQ (8 bits)",
    ),
    "GPTQ, version 2": (
        {"quant_method": "gptq", "bits": 8, "group_size": 32, "checkpoint_format": "gptq_v2"},
        lambda draw: gptq(draw, 8, 32, True, "gptq_v2"),
        "GPTQ (8 bits)",
    ),
    "AWQ": (AWQ, lambda draw: awq(draw, 4, 32), "AWQ (4 bits)"),
    "AWQ, 8 bits": (AWQ | {"bits": 8, "group_size": 16}, lambda draw: awq(draw, 8, 16), "AWQ (8 bits)"),
    "W4A16": (
        compressed(4, group_size=32),
        lambda draw: packed(draw, 4, draw.inputs // 32, False, False),
        "compressed-tensors (4 bits)",
    ),
    "W4A16 with zeros, in the order of activations": (
        compressed(4, group_size=32, actorder="group"),
        lambda draw: packed(draw, 4, draw.inputs // 32, True, True),
        "compressed-tensors (4 bits)",
    ),
    "W8A16 packed": (compressed(8), lambda draw: packed(draw, 8, 1, True, False), "compressed-tensors (8 bits)"),
    "W8A16": (compressed(8), lambda draw: int8(draw, 1, False), "compressed-tensors (8 bits)"),
    "W8A16 with zeros": (compressed(8), lambda draw: int8(draw, 4, True), "compressed-tensors (8 bits)"),
    "fp8 of a tensor": (
        compressed(8, "float", strategy="tensor"),
        lambda draw: fp8(draw, (1,), (draw.outputs, draw.inputs)),
        "compressed-tensors (fp8)",
    ),
    "fp8 of a channel": (
        compressed(8, "float", strategy="channel"),
        lambda draw: fp8(draw, (draw.outputs, 1), (1, draw.inputs)),
        "compressed-tensors (fp8)",
    ),
    "fp8 of a block": (
        compressed(8, "float", strategy="block", block_structure=[64, 64]),
        lambda draw: fp8(draw, (-(-draw.outputs // 64), -(-draw.inputs // 64)), (64, 64)),
        "compressed-tensors (fp8 in blocks of 64 × 64)",
    ),
    "DeepSeek's blocks": (
        FP8_BLOCKS,
        lambda draw: fp8(draw, (-(-draw.outputs // 64), -(-draw.inputs // 64)), (64, 64), "weight_scale_inv"),
        "fp8 in blocks of 64 × 64",
    ),
    "ModelOpt": (
        {"quant_method": "modelopt", "quant_algo": "FP8"},
        lambda draw: fp8(draw, (), (draw.outputs, draw.inputs)),
        "ModelOpt's FP8",
    ),
}  # fmt: skip


def shapes(config: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    family = FAMILIES["llama"]
    yield from ((family.prefix + name, shape) for name, shape in family.shapes(config))
    if not config["tie_word_embeddings"]:
        yield family.head, (config["vocab_size"], config["hidden_size"])


def checkpoint(folder: Path, given: dict[str, Any], make: Callable[[Draw], Made], **config: Any) -> dict[str, Any]:
    """Writes a checkpoint whose products, the LM head among them, are quantised; the value of each quantised weight."""
    config = CONFIG | config
    tensors: dict[str, torch.Tensor] = {}
    values: dict[str, Any] = {}
    for name, shape in shapes(config):
        if len(shape) == 1 or "embed" in name:
            tensors[name] = torch.randn(shape).half()
            continue
        parts, values[name] = make(Draw(*shape))
        tensors |= {f"{name.removesuffix('.weight')}.{part}": tensor for part, tensor in parts.items()}
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": given}))
    (folder / "tokenizer_config.json").write_text("{}")
    return values


def converted(folder: Path, into: Path) -> dict[str, torch.Tensor]:
    into.mkdir()
    convert(files_at(folder), into)
    return {name: tensor for path in into.glob("*.safetensors") for name, tensor in load_file(path).items()}


@pytest.mark.parametrize(("given", "make", "label"), FORMATS.values(), ids=FORMATS)
def test_every_weight_has_its_value_to_the_bit(
    tmp_path: Path, given: dict[str, Any], make: Callable[[Draw], Made], label: str
) -> None:
    values = checkpoint(tmp_path / "source", given, make)
    facts = inspect(tmp_path / "source")
    assert (facts.quantised, facts.dtype, facts.weight_bytes) == (label, "bfloat16", 2 * facts.parameters)
    assert facts.config == {
        **{key: value for key, value in CONFIG.items() if key != "torch_dtype"},
        "dtype": "bfloat16",
        "dequantised_from": given,
    }
    weights = converted(tmp_path / "source", tmp_path / "plain")
    assert weights.keys() == dict(shapes(CONFIG)).keys()
    for name, value in values.items():
        outputs, inputs = weights[name].shape
        wanted = np.array([[value(output, at) for at in range(inputs)] for output in range(outputs)], F32)
        got, expected = weights[name].view(torch.int16), torch.from_numpy(wanted).bfloat16().view(torch.int16)
        assert torch.equal(got, expected), name
    assert json.loads((tmp_path / "plain" / "config.json").read_text()) == facts.config
    assert (tmp_path / "plain" / "tokenizer_config.json").is_file()
    assert not is_quantised(files_at(tmp_path / "plain"))
    assert inspect(tmp_path / "plain").parameters == facts.parameters


def test_transformers_loads_a_tied_model(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    given, make, _ = FORMATS["AWQ"]
    checkpoint(tmp_path / "source", given, make, tie_word_embeddings=True)
    weights = converted(tmp_path / "source", tmp_path / "plain")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "plain")
    assert model.dtype == torch.bfloat16
    assert torch.equal(model.lm_head.weight, weights["model.embed_tokens.weight"])


def test_mxfp4_is_gpt_oss_own_and_its_experts_are_turned(tmp_path: Path) -> None:
    draw, experts, rows, groups = Draw(4, 64), 2, 4, 2
    blocks, scales = draw.bytes(experts, rows, groups, 16), draw.bytes(experts, rows, groups) // 2 + 64
    config = {
        "model_type": "gpt_oss",
        "architectures": ["GptOssForCausalLM"],
        "hidden_size": 64,
        "num_hidden_layers": 1,
    }
    name = "model.layers.0.mlp.experts.gate_up_proj"
    save_file({f"{name}_blocks": blocks, f"{name}_scales": scales}, tmp_path / "model.safetensors")
    given = {"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}}
    (tmp_path / "config.json").write_text(json.dumps(config | given))
    weight = converted(tmp_path, tmp_path / "plain")[name]
    assert weight.shape == (experts, groups * 32, rows)
    for expert, at, row in np.ndindex(*weight.shape):
        byte = int(blocks[expert, row, at // 32, at % 32 // 2])
        four = byte >> 4 if at % 2 else byte & 15
        size = (-1) ** (four >> 3) * E2M1[four & 7] * 2.0 ** (int(scales[expert, row, at // 32]) - 127)
        assert float(weight[expert, at, row]) == size


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "bitsandbytes": ({"load_in_4bit": True}, "weights quantised by bitsandbytes are not taken; taken are GPTQ, AWQ"),
    "NVFP4": ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "weights quantised by modelopt NVFP4 are not taken"),
    "another": ({"quant_method": "aqlm"}, "weights quantised by aqlm are not taken"),
    "no name": ({}, "weights quantised by an unnamed method are not taken"),
    "three bits": ({"quant_method": "gptq", "bits": 3}, "weights of 3 bits are not taken, only of 4 and 8"),
    "marlin": ({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}, "'marlin' is not one of gptq"),
    "gemv": ({"quant_method": "awq", "bits": 4, "version": "GEMV"}, "'gemv' is not taken; only gemm's layout is"),
    "group": ({"quant_method": "gptq", "bits": 4, "group_size": 0}, "group_size: must be a whole number above 0"),
    "groups": ({"quant_method": "gptq", "bits": 4, "group_size": 48}, "3 groups of scales do not fit 96 inputs"),
    "bits": ({"quant_method": "gptq", "bits": 8, "group_size": 32}, "do not fit together"),
    "sparse": (compressed(8) | {"sparsity_config": {"format": "sparse-24"}}, "only weights without sparsity"),
    "nothing": (compressed(8) | {"config_groups": {}}, "all groups must quantise weights, and to the same type"),
    "other parts": ({"quant_method": "mxfp4"}, "the weight is of type I32, but has no scale"),
    "a list": ([], "must be an object"),  # type: ignore[dict-item]
}


@pytest.fixture(scope="module")
def gptq_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gptq") / "source"
    checkpoint(folder, FORMATS["GPTQ"][0], FORMATS["GPTQ"][1])
    return folder


@pytest.mark.parametrize(("given", "sentence"), BAD.values(), ids=BAD)
def test_what_is_not_taken_is_one_sentence(gptq_folder: Path, given: dict[str, Any], sentence: str) -> None:
    (gptq_folder / "config.json").write_text(json.dumps(CONFIG | {"quantization_config": given}))
    with pytest.raises(ModelRefused, match=re.escape(sentence)):
        inspect(gptq_folder)


def test_mlx_is_refused_by_its_name(gptq_folder: Path) -> None:
    (gptq_folder / "config.json").write_text(json.dumps(CONFIG | {"quantization": {"bits": 4, "group_size": 64}}))
    with pytest.raises(ModelRefused, match="MLX's quantised weights are not taken"):
        inspect(gptq_folder)


def test_no_weights_are_no_quantised_weights(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | {"quantization_config": FORMATS["GPTQ"][0]}))
    with pytest.raises(ModelRefused, match="without safetensors there are no quantised weights"):
        inspect(tmp_path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"scales": lambda scales: scales.fill_(float("nan"))}, "the weights are not all numbers"),
        ({"g_idx": lambda order: order.fill_(3)}, "an input is of none of the 3 groups"),
        ({"g_idx": lambda order: order.fill_(-1)}, "an input is of none of the 3 groups"),
        ({"g_idx": lambda order: order[:5].clone()}, "g_idx must name the group of each of the 96 inputs"),
        ({"scales": lambda scales: scales.int()}, "its scales is of type I32, not F64 or F32"),
        ({"qzeros": lambda zeros: zeros[:1].clone()}, "do not fit together"),
        ({"qzeros": None}, "its qzeros is missing"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    given, make, _ = FORMATS["GPTQ in the order of activations"]
    checkpoint(tmp_path / "source", given, make)
    path = tmp_path / "source" / "model.safetensors"
    tensors, module = load_file(path), "model.layers.0.self_attn.q_proj"
    for part, changed in change.items():
        old = tensors.pop(f"{module}.{part}")
        tensors |= {f"{module}.{part}": changed(old)} if changed else {}
    save_file(tensors, path)
    with pytest.raises(ModelRefused, match=sentence):
        converted(tmp_path / "source", tmp_path / "plain")
