"""The weights of a quantised checkpoint in safetensors, dequantised one by one."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import torch
from safetensors import safe_open

from kernels.dequantising import group_scales
from kernels.dequantising.layouts import WrongParts, dequantised
from kernels.dequantising.layouts import stored as as_stored
from kernels.model_files import ModelRefused
from kernels.model_files.quantised import Scheme
from kernels.model_files.stored_weights import stored_weights
from kernels.model_files.tensors import read_tensors


def weights(
    files: Mapping[str, Path], scheme: Scheme
) -> Iterator[tuple[str, torch.Tensor, group_scales.Groups | None]]:
    """Each weight's name, its values in bf16, and scales and zeros if it is stored in groups. Raises ModelRefused."""
    stored = stored_weights(read_tensors(files), scheme)
    shards = {part.file for weight in stored.values() for part in weight.parts.values()}
    with ExitStack() as stack:
        opened = {shard: stack.enter_context(safe_open(files[shard], framework="pt")) for shard in shards}
        for name, weight in stored.items():
            parts = {part: opened[tensor.file].get_tensor(tensor.name) for part, tensor in weight.parts.items()}
            try:
                own = as_stored(weight.layout, parts, scheme)
                yield name, dequantised(own).bfloat16(), group_scales.of_groups(own)
            except WrongParts as error:
                raise ModelRefused(weight.file, name, str(error)) from None
