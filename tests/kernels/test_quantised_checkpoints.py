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

from kernels import runners
from kernels.dequantising import layouts
from kernels.dequantising.convert import convert
from kernels.dequantising.layouts import dequantise, stored
from kernels.model.decoder import Decoder
from kernels.model_files import ModelRefused, files_at, inspect, is_quantised
from kernels.model_files.families import FAMILIES, stored_experts
from kernels.model_files.quantised import Scheme
from kernels.quant import absmax
from kernels.quant.quantised_matrix import (
    STORED_ROWS,
    STORED_SCALES,
    STORED_ZEROS,
    fp8_rows,
    int4_zero,
    int8_groups,
)
from tests.kernels.model_folders import LLAMA
from tests.kernels.quantised_formats import F32, FORMATS, Draw, Made, awq, compressed, gptq, nvfp4, packed

HIDDEN, INNER, VOCABULARY = 96, 160, 64
DENSE = "2_Dense/model.safetensors"
CONFIG = LLAMA | {"hidden_size": HIDDEN, "intermediate_size": INNER, "vocab_size": VOCABULARY, "num_attention_heads": 6}
CONFIG |= {"num_hidden_layers": 1, "tie_word_embeddings": False, "torch_dtype": "float16"}
SMALL_GPT_OSS = {"model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], "hidden_size": 64, "head_dim": 16}
SMALL_GPT_OSS |= {"intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2}
SMALL_GPT_OSS |= {"num_local_experts": 3, "num_experts_per_tok": 2, "vocab_size": 96}


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
    for name in ("tokenizer_config.json", "quantize_config.json"):
        (folder / name).write_text("{}")
    (folder / "2_Dense").mkdir(exist_ok=True)
    save_file({"linear.weight": torch.ones(1, 1)}, folder / DENSE)
    return values


def converted(folder: Path, into: Path) -> dict[str, torch.Tensor]:
    into.mkdir()
    convert(files_at(folder), into)
    return {name: tensor for path in into.glob("*.safetensors") for name, tensor in load_file(path).items()}


INT8 = {"GPTQ", "AWQ", "W4A16", "W8A16"}
"""The formats here whose codes less their zero points are int8 in groups of multiples of 32."""
FP8 = {"fp8 of a tensor", "fp8 of a channel", "ModelOpt"}
"""Those in e4m3 with a scale for each row."""


@pytest.mark.parametrize("name", FORMATS)
def test_every_weight_has_its_value_to_the_bit(tmp_path: Path, name: str) -> None:
    given, make, label = FORMATS[name]
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
    attribute, quantise = (STORED_ROWS, fp8_rows) if name in FP8 else (STORED_SCALES, int8_groups)
    scales = tmp_path / "plain" / attribute
    kept = load_file(scales) if scales.exists() else {}
    assert kept.keys() == (values.keys() if name in INT8 | FP8 else set())
    for name, value in values.items():
        outputs, inputs = weights[name].shape
        wanted = np.array([[value(output, at) for at in range(inputs)] for output in range(outputs)], F32)
        got, expected = weights[name].view(torch.int16), torch.from_numpy(wanted).bfloat16().view(torch.int16)
        assert torch.equal(got, expected), name
        if kept:
            setattr(weights[name], attribute, kept[name])
            assert torch.equal(quantise(weights[name]).values(torch.float32), torch.from_numpy(wanted)), name
    assert json.loads((tmp_path / "plain" / "config.json").read_text()) == facts.config
    copied = files_at(tmp_path / "plain").keys() - {"config.json", "model.safetensors.index.json"}
    assert copied == {"tokenizer_config.json", DENSE, "model-00001.safetensors"} | ({attribute} if kept else set())
    assert not is_quantised(files_at(tmp_path / "plain"))
    assert inspect(tmp_path / "plain").parameters == facts.parameters


@pytest.mark.parametrize(
    ("columns", "dtype", "more", "known"),
    [
        (2, torch.float16, {}, True), (2, torch.bfloat16, {}, True), (2, torch.float32, {}, False),
        (8, torch.float16, {}, False), (2, torch.float16, {"zero": torch.zeros(8, 2, dtype=torch.int8)}, True),
        (2, torch.float16, {"zero": torch.full((8, 2), 9, dtype=torch.int8)}, False),
    ],
)  # fmt: skip
def test_int8_is_kept_where_float16_scales_of_32_columns_are_the_same_numbers(columns, dtype, more, known):
    """Groups of 64 or 16 columns; scales in float32 are no float16 numbers, and -128 less 9 is no int8."""
    codes = torch.randint(-128, 128, (8, 128), dtype=torch.int8)
    codes[:, ::64] = -128
    scale = (torch.rand(8, columns) * 0.01 + 0.001).to(dtype)
    scheme = Scheme("", "scaled", group=128 // columns)
    own = stored("scaled", {"plain": codes, "scale": scale} | more, scheme)
    weight = dequantise(own)
    form = layouts.check_stored(weight, layouts.stored_scales(own))
    assert (form is not None) == known
    if form is not None:
        setattr(weight, STORED_SCALES, form.scales)
        assert torch.equal(int8_groups(weight).codes.view(torch.int8), codes)
        assert torch.equal(form.scales.float(), scale.float().repeat_interleave(2, dim=1))


@pytest.mark.parametrize(
    ("make", "layout"),
    [
        (lambda draw: gptq(draw, 4, 64, False), "gptq"),
        (lambda draw: awq(draw, 4, 128), "awq"),
        (lambda draw: packed(draw, 4, 2, True, True), "packed"),
    ],
)
def test_zero_points_of_four_bits_are_kept_with_their_codes(make: Callable[[Draw], Made], layout: str) -> None:
    """As int4 and as int8 the weight has the values that another dequantiser finds."""
    made, value = make(Draw(16, 128))
    if "weight_g_idx" in made:
        made["weight_g_idx"].copy_(torch.arange(128) // 64)
    parts = {name.removeprefix("weight_").replace("zero_point", "zero"): tensor for name, tensor in made.items()}
    own = stored(layout, parts, Scheme("", layout, bits=4, group={"gptq": 64, "awq": 128}.get(layout), zero_offset=1))
    wanted = torch.tensor([[float(value(output, at)) for at in range(128)] for output in range(16)])
    weight = dequantise(own)
    form = layouts.check_stored(weight, layouts.stored_scales(own))
    assert form.zeros.dtype == torch.int8
    for attribute, numbers in zip((STORED_SCALES, STORED_ZEROS), form, strict=True):
        setattr(weight, attribute, numbers)
    for quantise in (int4_zero, int8_groups):
        assert torch.equal(quantise(weight).values(torch.float32), wanted)


def test_transformers_loads_a_tied_model(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    given, make, _ = FORMATS["AWQ"]
    checkpoint(tmp_path / "source", given, make, tie_word_embeddings=True)
    weights = converted(tmp_path / "source", tmp_path / "plain")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "plain")
    assert model.dtype == torch.bfloat16
    assert torch.equal(model.lm_head.weight, weights["model.embed_tokens.weight"])


def test_mxfp4_is_gpt_oss_own_and_its_experts_are_turned(tmp_path: Path) -> None:
    """Bit for bit by OCP's definition of MXFP4: sign, two bits of exponent, one of mantissa; a scale 2^(byte − 127)."""
    config = SMALL_GPT_OSS | {"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}}
    model = runners.load(None, SMALL_GPT_OSS, seed=2, generated=True, dtype="bf16", device="cpu")
    tensors, draw, wanted = {name: each.contiguous() for name, each in model.state_dict().items()}, Draw(4, 64), {}
    for name in [name for name in tensors if name.endswith(("gate_up_proj", "down_proj"))]:
        experts, inputs, outputs = tensors.pop(name).shape
        blocks = draw.bytes(experts, outputs, inputs // 32, 16)
        scales = draw.bytes(experts, outputs, inputs // 32) // 2 + 64
        tensors |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
        codes = torch.stack((blocks & 15, blocks >> 4), -1).flatten(-2).double()
        sign, exponent, mantissa = 1 - 2 * (codes // 8), codes % 8 // 2, codes % 2 / 2
        values = sign * torch.where(exponent == 0, mantissa, (1 + mantissa) * 2 ** (exponent - 1))
        wanted[name] = (values * 2 ** (scales.double()[..., None] - 127)).flatten(-2).transpose(1, 2)
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(config))
    weights = converted(tmp_path, tmp_path / "plain")
    for name, expected in wanted.items():
        assert torch.equal(weights[name].double(), expected)
        assert torch.equal(weights[name].signbit(), expected.signbit())
    facts = inspect(tmp_path)
    loaded = runners.load(tmp_path / "plain", facts.config, dtype="fp16", device="cpu")
    assert Decoder(loaded).layers[0].input_norm.dtype == torch.float16  # transformers leaves it float32
    assert stored_experts(loaded.config.to_dict()) == "mxfp4"
    mlp = Decoder(runners.load(tmp_path / "plain", facts.config, dtype="bf16", device="cpu")).layers[0].mlp
    for w in (mlp.gate_up, mlp.down):
        codes = absmax.quantise_absmax(w.flatten(0, 1), "mxfp4")
        assert torch.equal(absmax.values(codes).view_as(w), w.float())
    assert {name: each.shape for name, each in loaded.state_dict().items()} == {
        name: each.shape for name, each in weights.items()
    }


def test_experts_in_nvfp4_lie_one_by_one(tmp_path: Path) -> None:
    """As ModelOpt stores a mixture, of which transformers has all experts of a layer in one matrix."""
    config = SMALL_GPT_OSS | {"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"]}
    config |= {"num_experts": 3, "moe_intermediate_size": 32}
    model = runners.load(None, config, generated=True, dtype="bf16", device="cpu")
    tensors = {name: each.clone() for name, each in model.state_dict().items() if ".mlp.experts." not in name}
    experts = model.model.layers[0].mlp.experts
    for expert in range(3):
        gate, up = experts.gate_up_proj[expert].chunk(2)
        for part, weight in (("gate", gate), ("up", up), ("down", experts.down_proj[expert])):
            stored, value = nvfp4(Draw(*weight.shape), True)
            name = f"model.layers.0.mlp.experts.{expert}.{part}_proj"
            tensors |= {f"{name}.{key}": tensor.clone() for key, tensor in stored.items()}
            rows, columns = map(range, weight.shape)
            weight.copy_(torch.tensor([[float(value(row, column)) for column in columns] for row in rows]))
    save_file(tensors, tmp_path / "model.safetensors")
    given = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
    (tmp_path / "config.json").write_text(json.dumps(config | {"quantization_config": given}))
    converted(tmp_path, tmp_path / "plain")
    read = runners.load(tmp_path / "plain", inspect(tmp_path / "plain").config, dtype="bf16", device="cpu").state_dict()
    assert all(torch.equal(read[name], wanted) for name, wanted in model.state_dict().items())


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "bitsandbytes": ({"load_in_4bit": True}, "weights quantised by bitsandbytes are not taken; taken are GPTQ, AWQ"),
    "pre-scaled NVFP4": (
        {"quant_method": "modelopt", "quant_algo": "NVFP4_AWQ"},
        "by modelopt NVFP4_AWQ are not taken",
    ),
    "four bits": (compressed(4, "float"), "weights of type float in 4 bits are not taken"),
    "another": ({"quant_method": "aqlm"}, "weights quantised by aqlm are not taken"),
    "no name": ({}, "weights quantised by an unnamed method are not taken"),
    "three bits": ({"quant_method": "gptq", "bits": 3}, "weights of 3 bits are not taken, only of 4 and 8"),
    "marlin": ({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}, "'marlin' is not one of gptq"),
    "gemv": ({"quant_method": "awq", "bits": 4, "version": "GEMV"}, "'gemv' is not taken; only gemm's layout is"),
    "group": ({"quant_method": "gptq", "bits": 4, "group_size": 0}, "group_size: must be a whole number from 1"),
    "groups": ({"quant_method": "gptq", "bits": 4, "group_size": 48}, "3 groups of scales do not fit 96 inputs"),
    "block": ({"quant_method": "fp8", "weight_block_size": [10**99, 1]}, "must be two whole numbers from 1 to 2^40"),
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


def test_mlx_and_no_weights_are_refused(gptq_folder: Path, tmp_path: Path) -> None:
    (gptq_folder / "config.json").write_text(json.dumps(CONFIG | {"quantization": {"bits": 4, "group_size": 64}}))
    with pytest.raises(ModelRefused, match="MLX's quantised weights are not taken"):
        inspect(gptq_folder)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | {"quantization_config": FORMATS["GPTQ"][0]}))
    with pytest.raises(ModelRefused, match="without safetensors there are no quantised weights"):
        inspect(tmp_path)


def changed(folder: Path, change: dict[str, Any]) -> None:
    """Changes tensors of one quantised weight; None leaves a tensor out, and one that is not there is made."""
    path = folder / "model.safetensors"
    tensors, module = load_file(path), "model.layers.0.self_attn.q_proj"
    for part, make in change.items():
        old = tensors.pop(f"{module}.{part}", None)
        tensors |= {f"{module}.{part}": make(old)} if make else {}
    save_file(tensors, path)


NAN = float("nan")
ORDERED = "GPTQ in the order of activations"
BAD_TENSORS: list[tuple[str, dict[str, Any], str]] = [
    (ORDERED, {"scales": lambda scales: scales.fill_(NAN)}, "the weights are not all numbers"),
    ("GPTQ", {"scales": lambda scales: scales.fill_(float("inf"))}, "the weights are not all numbers"),
    (ORDERED, {"g_idx": lambda order: order.fill_(3)}, "an input is of none of the 3 groups"),
    (ORDERED, {"g_idx": lambda order: order.fill_(-1)}, "an input is of none of the 3 groups"),
    (ORDERED, {"g_idx": lambda order: order[:5].clone()}, "g_idx must name the group of each of the 96 inputs"),
    (ORDERED, {"scales": lambda scales: scales.int()}, "its scales is of type I32, not F64 or F32"),
    (ORDERED, {"qzeros": lambda zeros: zeros[:1].clone()}, "do not fit together"),
    (ORDERED, {"qzeros": None}, "its qzeros is missing"),
    ("NVFP4", {"weight_global_scale": lambda scale: scale.fill_(0)}, "a number above 0, but is 0"),
    ("ModelOpt's NVFP4", {"weight_scale_2": lambda scale: scale.fill_(0)}, "a number above 0, but is 0"),
    ("ModelOpt's NVFP4", {"weight_scale_2": lambda scale: scale.fill_(NAN)}, "a number above 0, but is nan"),
    ("NVFP4", {"weight_global_scale": lambda scale: scale.fill_(float("inf"))}, "a number above 0, but is inf"),
    ("NVFP4", {"weight_global_scale": lambda scale: scale.fill_(-1)}, "a number above 0, but is -1"),
    ("NVFP4", {"weight_scale": lambda scale: scale.float().fill_(NAN).to(scale.dtype)}, "the weights are not all numb"),
    ("NVFP4", {"weight_scale": lambda scale: scale.float()}, "its scale is of type F32, not F8_E4M3"),
    ("NVFP4", {"weight_scale": lambda scale: scale[:, :3].clone()}, r"of \[96, 96\] in NVFP4 has a scale for each 16"),
    ("NVFP4", {"weight_packed": lambda codes: codes[:, :7].clone()}, r"of \[96, 14\] in NVFP4 has a scale for each 16"),
    ("NVFP4", {"weight_global_scale": lambda scale: scale.repeat(3)}, "its weight_global_scale is one number, not 3"),
    ("NVFP4", {"weight_global_scale": None}, "its weight_global_scale is missing"),
    ("ModelOpt's NVFP4", {"weight_scale_2": None}, "its weight_scale_2 is missing"),
    ("ModelOpt's NVFP4", {"weight_global_scale": lambda _: torch.ones(1)},
     "its weight_global_scale has no meaning here"),
    ("ModelOpt's NVFP4", {"pre_quant_scale": lambda _: torch.ones(HIDDEN)},
     "no known meaning beside a quantised weight"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "sentence"), BAD_TENSORS)
def test_tensors_that_do_not_fit_are_refused(tmp_path: Path, name: str, change: dict[str, Any], sentence: str) -> None:
    given, make, _ = FORMATS[name]
    checkpoint(tmp_path / "source", given, make)
    changed(tmp_path / "source", change)
    with pytest.raises(ModelRefused, match=sentence):
        converted(tmp_path / "source", tmp_path / "plain")


def test_modelopts_own_file_says_how_weights_are_quantised(tmp_path: Path) -> None:
    """As checkpoints have it whose config.json says nothing; the scales of activations are left out, and named."""
    folder, (given, make, label) = tmp_path / "source", FORMATS["ModelOpt's NVFP4"]
    checkpoint(folder, given, make)
    wanted = converted(folder, tmp_path / "by config.json")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    stated = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": []}
    (folder / "hf_quant_config.json").write_text(json.dumps({"producer": {"name": "modelopt"}, "quantization": stated}))
    assert is_quantised(files_at(folder))
    facts = inspect(folder)
    assert (facts.quantised, facts.config["dequantised_from"]) == (label, stated | {"quant_method": "modelopt"})
    assert facts.notes[0] == "Not used: input_scale, as activations and the KV cache stay in 16 bits."
    weights = converted(folder, tmp_path / "plain")
    assert not (tmp_path / "plain" / "hf_quant_config.json").exists()
    assert weights.keys() == wanted.keys()
    assert all(torch.equal(weights[name], wanted[name]) for name in wanted)
