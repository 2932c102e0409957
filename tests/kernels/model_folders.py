"""Small model folders for tests: a configuration, and safetensors of the right names and shapes."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from kernels.model_files import ModelRefused, inspect
from kernels.model_files.families import FAMILIES, head_shape, is_tied

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "intermediate_size": 64,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 96,
    "tie_word_embeddings": True, "torch_dtype": "bfloat16",
}  # fmt: skip


def safetensors(tensors: dict[str, tuple[str, list[int], bytes]]) -> bytes:
    header, offset = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    return with_header(json.dumps(header).encode(), b"".join(data for _, _, data in tensors.values()))


def with_header(header: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + data


def weights_of(config: dict[str, Any]) -> dict[str, tuple[str, list[int], bytes]]:
    family = FAMILIES[config["model_type"]]
    shapes = {family.prefix + name: shape for name, shape in family.shapes(config)}
    if family.head and not is_tied(config):
        shapes[family.head] = head_shape(config)
    return {name: ("BF16", list(shape), bytes(2 * _numel(shape))) for name, shape in shapes.items()}


def _numel(shape: tuple[int, ...]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def write_model(folder: Path, config: Any = None, **files: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    config = LLAMA if config is None else config
    (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_bytes(content)
    return folder


def refusal(folder: Path, **options: Any) -> ModelRefused:
    with pytest.raises(ModelRefused) as caught:
        inspect(folder, **options)
    assert str(caught.value).count("\n") == 0
    return caught.value
