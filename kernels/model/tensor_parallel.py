"""A model sharded over several ranks of one process, each on a device of its own: tensor parallel.

A rank has some heads with their rows of q, k and v and their columns of the output projection, and some columns of the
MLP, or of every expert. Embedding, norms, routers, LM head and residual are replicated. So a rank is a smaller model of
the same family, which the compact decoder runs as any other, but for one thing: what the output and the down projection
give is a partial sum, and all ranks add theirs up before it joins the residual (`kernels.model.tensor_parallel_pass`).

Where q and k are normed over all heads, no rank has some of them: each has all, and only the first one's output counts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from kernels.dtypes import DTYPE_NAMES, DTYPES
from kernels.model import decoder, loading, weights
from kernels.model.dense_families import SHARDED
from kernels.model.divisible import indivisible
from kernels.model.experts import has_experts, is_sparse
from kernels.model_files import families
from kernels.quant.quantised_matrix import GROUP, STORED

ADDED_ONCE = ("o_proj.bias", "down_proj.bias", "down_proj_bias")
"""Biases of partial sums: the first rank has them, the others zeros."""
EXPERT_COLUMNS = 8
"""Each rank gets a multiple of so many columns of an expert: 16 bytes, which grouped products read at once."""
GATE_FIRST = "experts.gate_up_proj"
"""The rows of every expert's gate, then of up; gpt-oss's alternate as columns of the parameter."""
STORED_EXPERTS = (("mlp", "gate_proj", "up_proj", "down_proj"), ("block_sparse_moe", "w1", "w3", "w2"))
"""What files with one tensor for each expert call the MLP, gate, up and down; the second are Mixtral's."""

Box = tuple[slice, ...]
Place = tuple[int, int]
"""A rank, and how many there are."""


@dataclass(frozen=True)
class TensorParallelModel:
    """`shards[r]` is rank r's model; `config` the whole model's, as transformers has it."""

    config: Any
    shards: list[Any]

    @property
    def device(self) -> torch.device:
        """The first rank's."""
        first: torch.device = self.shards[0].device
        return first


def shards_of(model: Any) -> list[Any]:
    """The model of each rank, in order; of a transformers model that is not sharded the model itself."""
    sharded = getattr(model, "sharded", model)
    return sharded.shards if isinstance(sharded, TensorParallelModel) else [model]


def devices_of(tensor_parallel_size: int, kind: str | None = None) -> list[torch.device]:
    """The devices of so many shards: the first GPUs, or the CPU for each. Raises ValueError for fewer GPUs."""
    if kind == "cpu":
        return [torch.device("cpu")] * tensor_parallel_size
    if (visible := torch.cuda.device_count()) < tensor_parallel_size:
        raise ValueError(
            f"tensor_parallel_size: {tensor_parallel_size} GPUs are wanted, and {visible} can be seen here"
        )
    return [torch.device("cuda", number) for number in range(tensor_parallel_size)]


def shard_config(config: Mapping[str, Any], tensor_parallel_size: int) -> dict[str, Any]:
    """Each rank's configuration. Raises ValueError for a size that does not divide, or such a family."""
    family = config.get("model_type")
    if family not in SHARDED:
        raise ValueError(f"model_type {family!r}: {', '.join(SHARDED)} are sharded over several GPUs")
    full: Any = loading.configuration(dict(config))
    of_experts = "moe_intermediate_size"
    inner = (
        of_experts if hasattr(type(full), of_experts) and families.is_sparse(full.to_dict(), 0) else "intermediate_size"
    )
    units = {} if families.normed_over_heads(dict(config)) else {"num_key_value_heads": 1, "num_attention_heads": 1}
    units[inner] = EXPERT_COLUMNS if has_experts(full) else 1
    sizes = [(name, getattr(full, name), unit) for name, unit in units.items()]
    if problem := indivisible(sizes, tensor_parallel_size):
        raise ValueError(problem)
    shard = {name: size // tensor_parallel_size for name, size, _ in sizes}
    head_dim = getattr(full, "head_dim", None) or full.hidden_size // full.num_attention_heads
    return deepcopy(dict(config)) | shard | {"head_dim": head_dim}


def load(
    directory: Path | None,
    config: dict[str, Any],
    devices: Sequence[torch.device],
    *,
    seed: int = 0,
    generated: bool = False,
    dtype: str = "bf16",
) -> TensorParallelModel:
    """The model sharded over `devices`, `generated` from the seed or read from `directory`'s safetensors, whole
    nowhere. Raises ValueError as `generate` and `read`, and where a device holds too little.
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype: {dtype!r} is not one of {', '.join(DTYPES)}")
    try:
        if generated:
            return generate(config, devices, dtype, seed)
        if directory is None:
            raise ValueError("a model that is not generated needs the directory of its safetensors")
        return read(directory, config, devices, dtype)
    except torch.OutOfMemoryError as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"tensor_parallel_size: {len(devices)} GPUs hold too little for this model: {reason[:160]}"
        ) from None


@torch.no_grad()
def generate(config: dict[str, Any], devices: Sequence[torch.device], dtype: str, seed: int = 0) -> TensorParallelModel:
    """The generated model over `devices`, each rank's weights made there. Raises ValueError as `shard_config`."""
    shard_config(config, len(devices))
    full: Any = loading.skeleton(config, dtype)

    def fill(shard: Any, place: Place) -> None:
        shapes = {name: full.get_parameter(name).shape for name, _ in shard.named_parameters()}
        boxes = {name: _boxes(name, shapes[name], own.shape, place) for name, own in shard.named_parameters()}
        weights.generate_shard(shard, full, seed, boxes)

    return _build_sharded(config, devices, dtype, fill)


@torch.no_grad()
def read(directory: Path, config: dict[str, Any], devices: Sequence[torch.device], dtype: str) -> TensorParallelModel:
    """The model in `directory`'s safetensors over `devices`: each rank copies its slices of mapped files, scales and
    zeros. Raises ValueError as `shard_config`, and for a missing or misshapen tensor.
    """

    def fill(shard: Any, place: Place) -> None:
        tensors = [entry for name, own in shard.named_parameters() for entry in _stored(name, own, files)]
        if lacking := next((stored for stored, _ in tensors if stored not in files), ""):
            raise ValueError(f"{directory.name}: no safetensors file holds {lacking}")
        for path, of_file in groupby(tensors, key=lambda entry: files[entry[0]]):
            _read_boxes(path, of_file, place)
        for attribute in STORED:
            if (path := directory / attribute).is_file():
                _read_groups(path, attribute, shard, place)
        for module, name, scale in loading.kv_scales(directory):
            heads = min(len(scale), shard.config.num_key_value_heads)
            box = _box(f"{module}.{name}", scale.shape, (heads,), place)
            setattr(shard.get_submodule(module), name, scale[box])

    try:
        files = _files(directory)
        return _build_sharded(config, devices, dtype, fill, threads=len(devices))
    except SafetensorError as error:
        raise ValueError(f"{directory.name}: the tensors cannot be loaded: {error}") from error


@torch.no_grad()
def shard_model(model: Any, devices: Sequence[torch.device]) -> TensorParallelModel:
    """A loaded model sharded over `devices`; the shards are copies. Raises ValueError as `shard_config`."""

    def fill(shard: Any, place: Place) -> None:
        for name, own in shard.named_parameters():
            full = model.get_parameter(name)
            for at, box in _boxes(name, full.shape, own.shape, place):
                own[at].copy_(full[box])
        shard.model.rotary_emb = deepcopy(model.model.rotary_emb).to(shard.device)

    return _build_sharded(model.config.to_dict(), devices, DTYPE_NAMES[model.dtype], fill)


def _build_sharded(
    config: dict[str, Any],
    devices: Sequence[torch.device],
    dtype: str,
    fill: Callable[[Any, Place], None],
    threads: int = 1,
) -> TensorParallelModel:
    """The sharded model whose shards are filled by `fill`, `threads` at the same time, each tied parameter once."""
    shards = [_empty(config, len(devices), dtype, device) for device in devices]
    once = ADDED_ONCE + (("o_proj.weight",) if families.normed_over_heads(config) else ())

    @torch.no_grad()
    def filled(rank: int) -> None:
        fill(shards[rank], (rank, len(devices)))
        for name, parameter in shards[rank].named_parameters():
            if rank and name.endswith(once):
                parameter.zero_()

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(filled, range(len(devices))))
    return TensorParallelModel(loading.configuration(config), shards)


def _empty(config: Mapping[str, Any], tensor_parallel_size: int, dtype: str, device: torch.device) -> Any:
    """A rank's model with weights that nothing has filled. q, k and v lie one after the other in memory, and so do gate
    and up, as `decoder.Decoder` joins them. Raises ValueError for a model that the compact decoder cannot run.
    """
    model: Any = loading.skeleton(shard_config(config, tensor_parallel_size), dtype)
    if reason := decoder.refusal(model):
        raise ValueError(f"the compact decoder cannot run this model: {reason}")
    model.tie_weights()
    make = partial(torch.empty, dtype=model.dtype, device=device)
    for layer in model.model.layers:
        attention, mlp = layer.self_attn, layer.mlp
        gate_up = () if is_sparse(layer) else ((mlp.gate_proj, mlp.up_proj),)
        for modules in ((attention.q_proj, attention.k_proj, attention.v_proj), *gate_up):
            for name in ("weight", "bias"):
                old = [getattr(module, name) for module in modules]
                if old[0] is None:
                    continue
                rows = [len(item) for item in old]
                joined = make((sum(rows), *old[0].shape[1:])).split(rows)
                for module, own in zip(modules, joined, strict=True):
                    setattr(module, name, torch.nn.Parameter(own, requires_grad=False))
    for name, parameter in list(model.named_parameters()):
        if parameter.is_meta:
            owner, _, attribute = name.rpartition(".")
            own = torch.nn.Parameter(make(parameter.shape), requires_grad=False)
            setattr(model.get_submodule(owner), attribute, own)
    rotary = model.model.rotary_emb
    with device:
        model.model.rotary_emb = type(rotary)(config=model.config)
    model.tie_weights()
    return model.eval()


def _files(directory: Path) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for path in loading.weight_files(directory):
        with safe_open(path, framework="pt") as file:
            files |= dict.fromkeys(file.keys(), path)
    return files


def _stored(name: str, own: torch.Tensor, files: Mapping[str, Path]) -> Iterator[tuple[str, torch.Tensor]]:
    """The names of the tensors that files hold of a parameter, each with the part of the rank's own that it fills: one
    for all experts or one for each, under either of the names in STORED_EXPERTS.
    """
    mlp, gate, up, down = next(
        (names for names in STORED_EXPERTS if any(f".{names[0]}." in stored for stored in files)), STORED_EXPERTS[0]
    )
    stored = name.replace(".mlp.", f".{mlp}.")
    module, separator, kind = stored.rpartition(".experts.")
    if not separator or stored in files or kind.endswith("_bias"):
        yield stored, own
        return
    names = (gate, up) if kind == "gate_up_proj" else (down,)
    for number, expert in enumerate(own):
        for part, matrix in zip(names, expert.chunk(len(names)), strict=True):
            yield f"{module}.experts.{number}.{part}.weight", matrix


def _read_boxes(path: Path, tensors: Iterable[tuple[str, torch.Tensor]], place: Place) -> None:
    """Copies a rank's slices out of a file, which is mapped no longer than that takes."""
    with safe_open(path, framework="pt") as file:
        for name, own in tensors:
            full = file.get_slice(name)
            for at, box in _boxes(name, full.get_shape(), own.shape, place):
                own[at].copy_(full[box])


def _read_groups(path: Path, attribute: str, shard: Any, place: Place) -> None:
    """Gives a rank's weights their slice of scales and zeros: of rows, or of groups of columns where it cuts none."""
    with safe_open(path, framework="pt") as file:
        for name in list(file.keys()):
            own, full = shard.get_parameter(name), file.get_slice(name)
            (rows, columns), sizes = own.shape, full.get_shape()
            shape = (rows, -(-columns // GROUP))[: len(sizes)]
            if len(sizes) == 1 or columns % GROUP == 0 or shape == (rows, sizes[1]):
                setattr(own, attribute, full[_box(name, sizes, shape, place)])


def _boxes(name: str, full: Sequence[int], shape: Sequence[int], place: Place) -> list[tuple[Box, Box]]:
    """Which boxes of the whole tensor a rank has, each behind its place: two of experts' gate and up (`_box`)."""
    box = _box(name, full, shape, place)
    if not name.endswith(GATE_FIRST) or full[1] == shape[1]:
        return [(tuple(slice(0, length) for length in shape), box)]
    inner, gate = shape[1] // 2, place[0] * shape[1] // 2
    return [
        (
            (slice(0, shape[0]), slice(half * inner, half * inner + inner), slice(0, shape[2])),
            (box[0], slice(gate + half * full[1] // 2, gate + half * full[1] // 2 + inner), box[2]),
        )
        for half in range(2)
    ]


def _box(name: str, full: Sequence[int], shape: Sequence[int], place: Place) -> tuple[slice, ...]:
    """A rank's shard of a tensor, cut along the dimension that is `ranks` times as long as the rank's `shape`."""
    if len(full) != len(shape):
        raise ValueError(f"{name} has {len(full)} dimensions, and {len(shape)} are needed")
    (rank, ranks), box = place, []
    for size, length in zip(full, shape, strict=True):
        if size not in (length, length * ranks):
            raise ValueError(f"{name} has shape {list(full)}, and {ranks} ranks have {list(shape)} each")
        begin = 0 if size == length else rank * length
        box.append(slice(begin, begin + length))
    return tuple(box)
