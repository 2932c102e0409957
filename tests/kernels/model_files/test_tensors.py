"""Weights that are refused: layouts, names and shapes that do not fit, shards that disagree with their index."""

import json
import math
import struct
from pathlib import Path
from typing import Any

import pytest

from kernels.model_files import inspect, inspect_config
from kernels.model_files.families import FAMILIES
from tests.kernels.model_folders import LLAMA, refusal, safetensors, weights_of, with_header, write_model


@pytest.mark.parametrize("model_type", sorted(FAMILIES))
def test_tensors_must_match_the_configuration_in_every_family(tmp_path: Path, model_type: str) -> None:
    config = LLAMA | {"model_type": model_type, "architectures": None, "head_dim": 8}
    if model_type == "gpt2":
        config |= {"n_embd": 32, "n_layer": 2, "n_head": 4}
    weights = weights_of(config)
    inspect(write_model(tmp_path / "right", config, model__safetensors=safetensors(weights)))
    victim = next(name for name in weights if ".1." in name and name.endswith("weight"))
    missing = {name: tensor for name, tensor in weights.items() if name != victim}
    assert refusal(write_model(tmp_path / "less", config, model__safetensors=safetensors(missing))).field == victim
    dtype, shape, data = weights[victim]
    bent = weights | {victim: (dtype, [shape[0] * 2, *shape[1:]], data * 2)}
    assert refusal(write_model(tmp_path / "bent", config, model__safetensors=safetensors(bent))).field == victim


def test_a_layer_too_many(tmp_path: Path) -> None:
    weights = safetensors(weights_of(LLAMA | {"num_hidden_layers": 3}))
    refused = refusal(write_model(tmp_path / "m", model__safetensors=weights))
    assert refused.field == "num_hidden_layers"
    assert "3 layers" in refused.reason


ONE = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("header", "data", "reason"),
    [
        ({"a": ONE}, 4, "truncated"), ({"a": ONE}, 12, "belong to no tensor"),
        ({"a": ONE, "b": ONE}, 8, "inside the one before"),
        ({"a": ONE, "b": ONE | {"data_offsets": [12, 20]}}, 20, "belong to none"),
        ({"a": ONE | {"shape": [3]}}, 8, "12 bytes"), ({"a": ONE | {"shape": [-2]}}, 8, "whole numbers"),
        ({"a": ONE | {"shape": [2**41]}}, 8, "2^40"), ({"a": ONE | {"data_offsets": [8, 0]}}, 8, "smaller first"),
        ({"a": ONE | {"data_offsets": [-4, 8]}}, 8, "from 0, the smaller first, not [-4, 8]"),
        ({"a": ONE | {"dtype": "PICKLE"}}, 8, "PICKLE"), ({"a": ONE | {"extra": 1}}, 8, "exactly"),
        ({"a": 3}, 8, "exactly"), ({"__metadata__": {"x": 1}}, 0, "metadata"), ({}, 0, "no tensor"),
    ],
)  # fmt: skip
def test_safetensors_layouts_that_are_refused(tmp_path: Path, header: Any, data: int, reason: str) -> None:
    content = with_header(json.dumps(header).encode(), bytes(data))
    assert reason in refusal(write_model(tmp_path / "m", model__safetensors=content)).reason


def test_headers_with_a_name_twice_or_too_long_or_a_bomb_are_refused(tmp_path: Path) -> None:
    entry = json.dumps(ONE)
    content = with_header(f'{{"a": {entry}, "a": {entry}}}'.encode(), bytes(8))
    refused = refusal(write_model(tmp_path / "m", model__safetensors=content))
    assert (refused.field, refused.reason) == ("a", "the key is there twice")
    content = struct.pack("<Q", 100_000_001) + b"{}"
    assert "100,000,000" in refusal(write_model(tmp_path / "m", model__safetensors=content)).reason
    header = b'{"a":[' + b"1," * 8_000_001 + b"1]}"
    assert "entries" in refusal(write_model(tmp_path / "m", model__safetensors=with_header(header))).reason


def split(tmp_path: Path, weight_map: dict[str, str] | None = None, drop: str = "") -> Path:
    weights = weights_of(LLAMA)
    names = list(weights)
    halves = {"model-1.safetensors": names[:9], "model-2.safetensors": names[9:]}
    folder = write_model(tmp_path / "m")
    for shard, inside in halves.items():
        if shard != drop:
            (folder / shard).write_bytes(safetensors({name: weights[name] for name in inside}))
    right = {name: shard for shard, inside in halves.items() for name in inside}
    index = {"metadata": {}, "weight_map": right | (weight_map or {})}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def test_shards_agree_with_an_index_that_names_every_tensor(tmp_path: Path) -> None:
    assert inspect(split(tmp_path)).parameters == inspect_config(LLAMA).parameters
    folder = split(tmp_path)
    index = folder / "model.safetensors.index.json"
    document = json.loads(index.read_text())
    del document["weight_map"]["model.norm.weight"]
    index.write_text(json.dumps(document))
    assert refusal(folder).field == "model.norm.weight"
    (folder / "model.safetensors.index.json").unlink()
    assert "index" in refusal(folder).reason


@pytest.mark.parametrize(
    ("change", "drop", "reason"),
    [
        ({}, "model-2.safetensors", "names, is missing"),
        ({"model.norm.weight": "model-1.safetensors"}, "", "is in model-2.safetensors"),
        ({"model.ghost.weight": "model-1.safetensors"}, "", "does not hold"),
        ({"model.norm.weight": "../../etc/passwd"}, "", "climbs out of the model's folder"),
        ({"model.norm.weight": "/etc/passwd"}, "", "climbs out of the model's folder"),
    ],
)
def test_an_index_that_disagrees_with_the_shards(tmp_path, change, drop, reason):
    assert reason in refusal(split(tmp_path, change, drop)).reason


@pytest.mark.parametrize(
    "name", ["model.norm.weight_scale", "model.norm.input_scale", "a.qweight", "a.weight_scale_inv"]
)
def test_scales_of_quantised_weights_are_never_dropped(tmp_path: Path, name: str) -> None:
    weights = weights_of(LLAMA) | {name: ("F32", [1], bytes(4))}
    refused = refusal(write_model(tmp_path / "m", model__safetensors=safetensors(weights)))
    assert refused.field == name
    assert "(the tensor holds their scales), but config.json has no quantization_config" in refused.reason


def test_weights_in_fp8_among_others_are_refused(tmp_path: Path) -> None:
    weights = weights_of(LLAMA)
    name = next(name for name in weights if name.endswith("down_proj.weight"))
    shape = weights[name][1]
    weights[name] = "F8_E4M3", shape, bytes(math.prod(shape))
    refused = refusal(write_model(tmp_path / "m", model__safetensors=safetensors(weights)))
    assert (refused.field, "FP8" in refused.reason) == (name, True)


def test_the_file_of_a_quantiser_names_its_format(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", model__safetensors=safetensors(weights_of(LLAMA)))
    stated = {"quantization": {"quant_algo": "FP8"}}
    (folder / "quantize_config.json").write_text(json.dumps(stated))
    assert "(GPTQ FP8)" in refusal(folder).reason
    (folder / "quantize_config.json").rename(folder / "hf_quant_config.json")
    assert refusal(folder).reason == "no tensor is quantised, though the weights are said to be ModelOpt's FP8"
    (folder / "hf_quant_config.json").write_text("{}")
    assert refusal(folder).field == "quantization"
