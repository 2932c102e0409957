"""Shards against each other, against their index, and against the configuration."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernels.model_files.config import FILE, dimension_name
from kernels.model_files.errors import ModelRefused
from kernels.model_files.families import FAMILIES, Family, has_own_head, head_shape
from kernels.model_files.headers import Tensor, read_header
from kernels.model_files.strict_json import read_json

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
MAX_INDEX = 64 * 2**20


def read_tensors(files: Mapping[str, Path]) -> dict[str, Tensor]:
    """The shards' tensors by name, {} without; other safetensors' headers are checked. Raises ModelRefused."""
    tensors: dict[str, Tensor] = {}
    shards = sorted(path for path in files if path.endswith(".safetensors"))
    for shard in shards:
        header = read_header(shard, files[shard])
        if not header:
            raise ModelRefused(shard, "header", "the file holds no tensor")
        for tensor in header if "/" not in shard else ():
            if tensor.name in tensors:
                raise ModelRefused(shard, tensor.name[:200], f"the tensor is also in {tensors[tensor.name].file}")
            tensors[tensor.name] = tensor
    if INDEX in files:
        _check_index(_weight_map(files[INDEX]), files, tensors)
    return tensors


def read_index(at: Path) -> set[str]:
    """The files that an index names as those of the weights. Raises ModelRefused where it is no index."""
    return set(_weight_map(at).values())


def _weight_map(at: Path) -> dict[str, str]:
    document = read_json(INDEX, at, MAX_INDEX)
    weight_map = document.get("weight_map") if isinstance(document, dict) else None
    if not isinstance(weight_map, dict) or any(not isinstance(shard, str) for shard in weight_map.values()):
        raise ModelRefused(INDEX, "weight_map", "the field must map tensor names to file names")
    return weight_map


def _check_index(weight_map: Mapping[str, str], files: Mapping[str, Path], tensors: dict[str, Tensor]) -> None:
    for name, shard in weight_map.items():
        field = f"weight_map.{name[:200]}"
        if shard not in files and (shard.startswith("/") or ".." in shard.split("/")):
            raise ModelRefused(INDEX, field, f"the path {shard[:200]!r} climbs out of the model's folder")
        if name not in tensors:
            raise ModelRefused(INDEX, field, f"{shard[:200]} does not hold the tensor")
        if tensors[name].file != shard:
            raise ModelRefused(INDEX, field, f"the tensor is in {tensors[name].file}, not in {shard[:200]}")
    for name, tensor in tensors.items():
        if name not in weight_map:
            raise ModelRefused(tensor.file, name[:200], f"the tensor is not named in {INDEX}")


def check_against_config(tensors: dict[str, Tensor], config: dict[str, Any]) -> None:
    """Refuses missing, surplus or misshapen tensors of FAMILIES (not experts). Raises ModelRefused."""
    family = FAMILIES.get(config["model_type"])
    if family is None or not tensors:
        return
    prefix = family.prefix if any(name.startswith(family.prefix) for name in tensors) else ""
    _check_layers(tensors, config, family, prefix)
    for name, shape in family.shapes(config):
        if family.mixture is not None and ".mlp." in name:
            continue
        _check_shape(tensors, prefix + name, shape)
    if prefix and has_own_head(config):
        _check_shape(tensors, family.head, head_shape(config))


def _check_shape(tensors: dict[str, Tensor], name: str, shape: tuple[int, ...]) -> None:
    tensor = tensors.get(name)
    if tensor is None:
        raise ModelRefused(FILE, name, "the configuration implies this tensor, but no file of weights holds it")
    if tensor.shape != shape:
        raise ModelRefused(tensor.file, name, f"the shape is {list(tensor.shape)}, but {FILE} implies {list(shape)}")


def _check_layers(tensors: dict[str, Tensor], config: dict[str, Any], family: Family, prefix: str) -> None:
    pattern = re.compile(re.escape(f"{prefix}{family.layers}.") + r"(\d{1,6})\.")
    present = {int(match[1]) for name in tensors if (match := pattern.match(name))}
    field = dimension_name(config, "layers")
    if len(present) != config[field] or present != set(range(len(present))):
        counted = f"{len(present)} layers" if present else "no layers"
        raise ModelRefused(FILE, field, f"the field says {config[field]}, but the files of weights hold {counted}")
