"""The kernels runner over several ranks, a process each: tensor parallel prompts and steps.

A rank has some heads with their rows of q, k and v and their columns of the output projection, and some columns of the
MLP. Embedding, norms, LM head and residual are replicated. So a rank is a smaller model of the same family, which the
compact decoder runs as any other, but for one thing: what the output and the down projection give is a partial sum,
and all ranks add theirs up before it joins the residual.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors import safe_open
from torch import Tensor

from kernels.dtypes import DTYPES
from kernels.engine import decoder, loading
from kernels.engine.bound_variants import BoundVariants
from kernels.engine.divides import undivided
from kernels.engine.kernels_runner import KernelsRunner
from kernels.hardware import NO_MULTICAST

ADDED_ONCE = ("o_proj.bias", "down_proj.bias")
"""Biases of partial sums: the first rank has them, the others zeros."""


@contextmanager
def group(rank: int, ranks: int, device: torch.device, meeting: str) -> Iterator[None]:
    """This process as one of `ranks`, which meet at `meeting`, an address of `init_process_group`.

    NCCL on GPUs, without NVLink's multicast; gloo on CPUs.
    """
    os.environ.update(NO_MULTICAST)
    backend = "nccl" if device.type == "cuda" else "gloo"
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(backend, init_method=meeting, rank=rank, world_size=ranks)
    try:
        yield
    finally:
        dist.destroy_process_group()


def part_of_config(config: Mapping[str, Any], ranks: int) -> dict[str, Any]:
    """The configuration of each rank's model. Raises ValueError naming the first size that does not divide, or the
    family that is not divided.
    """
    family = config.get("model_type")
    if family not in decoder.MODEL_TYPES:
        raise ValueError(f"model_type {family!r}: {', '.join(decoder.MODEL_TYPES)} are divided over ranks")
    heads = config["num_attention_heads"]
    sizes = {
        "num_key_value_heads": config.get("num_key_value_heads") or heads,
        "num_attention_heads": heads,
        "intermediate_size": config["intermediate_size"],
    }
    if said := undivided(((name, size, 1) for name, size in sizes.items()), ranks):
        raise ValueError(said)
    part = {name: size // ranks for name, size in sizes.items()}
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    return deepcopy(dict(config)) | part | {"head_dim": head_dim}


@torch.no_grad()
def load_part(
    directory: Path, config: Mapping[str, Any], rank: int, ranks: int, dtype: str, device: torch.device
) -> torch.nn.Module:
    """The model of one rank: of each tensor in the safetensors of `directory` its own slice is copied, the file mapped.

    Raises ValueError as `part_of_config` does, and for a tensor that is missing or has another shape.
    """
    part = part_of_config(config, ranks)
    model: Any = loading.skeleton(part, dtype)
    if said := decoder.refusal(model):
        raise ValueError(f"the compact decoder cannot run this model: {said}")
    files = _files(directory)
    model.tie_weights()
    for name, empty in list(model.named_parameters()):
        if name not in files:
            raise ValueError(f"{directory.name}: no safetensors file holds {name}")
        with safe_open(files[name], framework="pt") as file:
            own = _own(file.get_slice(name), name, empty.shape, rank, ranks)
            own = own.to(device, DTYPES[dtype], copy=True, memory_format=torch.contiguous_format)
        owner, _, attribute = name.rpartition(".")
        if rank and name.endswith(ADDED_ONCE):
            own = torch.zeros_like(own)
        setattr(model.get_submodule(owner), attribute, torch.nn.Parameter(own, requires_grad=False))
    rotary = model.model.rotary_emb
    model.model.rotary_emb = type(rotary)(config=model.config, device=device)
    model.tie_weights()
    return model.eval()  # type: ignore[no-any-return]


def _files(directory: Path) -> dict[str, Path]:
    """The file of each tensor."""
    found: dict[str, Path] = {}
    for path in sorted(directory.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            found |= dict.fromkeys(file.keys(), path)
    return found


def _own(whole: Any, name: str, shape: torch.Size, rank: int, ranks: int) -> Tensor:
    """The rank's slice of a tensor: along the dimension that is `ranks` times as long in the file as in its model."""
    sizes = whole.get_shape()
    if len(sizes) != len(shape):
        raise ValueError(f"{name} has {len(sizes)} dimensions, and {len(shape)} are needed")
    at = []
    for size, length in zip(sizes, shape, strict=True):
        if size not in (length, length * ranks):
            raise ValueError(f"{name} has shape {list(sizes)}, and {ranks} ranks have {list(shape)} each")
        begin = 0 if size == length else rank * length
        at.append(slice(begin, begin + length))
    found: Tensor = whole[tuple(at)]
    return found


class DividedRunner(KernelsRunner):
    """One rank of the kernels runner. `model` is its part (`load_part`), and the process belongs to a `group`.

    All ranks call the same methods with the same arguments at the same time, and all get the same answer: prompts and
    steps of a request are divided alike, and `Generation` has the times of both. Raises ValueError for options that
    lower the precision, which parts would round apart.
    """

    def __init__(
        self, model: torch.nn.Module, options: dict[str, Any] | None = None, parts: BoundVariants | None = None
    ) -> None:
        if (options or {}).get("weights", "bf16") != "bf16":
            raise ValueError("weights: a model that is divided over processes keeps its precision")
        super().__init__(model, options, parts)

    def _compact(self) -> decoder.Decoder:
        compact = super()._compact()
        compact.reduce = _summed
        return compact


def _summed(partial: Tensor) -> Tensor:
    """The sum of all ranks' tensors, in place."""
    dist.all_reduce(partial)
    return partial
