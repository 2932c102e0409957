"""The scales of int8 weights, kept beside the bf16 weights that they were dequantised to: so each code is known.

A code of int8 times its scale, rounded to bf16, is off by a quarter of the scale at most.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from kernels.model_files.quantised import Scheme
from kernels.model_files.stored_weights import block_of, scale_shape
from kernels.quant.quantised_matrix import GROUP, STORED_SCALES, int8_groups

Q8_0_BYTES = 34
"""A block of GGUF's Q8_0: a float16 scale, and 32 codes."""


def of_gguf(stored: np.ndarray, dtype: str) -> np.ndarray | None:
    """The scales [rows, columns / 32] float32 of bytes [rows, bytes of a row] in Q8_0; None of another type."""
    if dtype != "Q8_0" or stored.ndim != 2:
        return None
    blocks = stored.reshape(len(stored), -1, Q8_0_BYTES)[:, :, :2]
    return np.ascontiguousarray(blocks).view(np.float16)[:, :, 0].astype(np.float32)


def of_parts(parts: Mapping[str, Tensor], scheme: Scheme) -> Tensor | None:
    """The scales [rows, columns / 32] float32 of compressed-tensors' symmetric int8, in groups of multiples of 32 or a
    scale for a row; None of other formats.
    """
    codes = parts.get("packed", parts.get("plain"))
    if codes is None or "scale" not in parts or {"zero", "g_idx"} & parts.keys() or scheme.bits != 8:
        return None
    if codes.dtype not in (torch.int32, torch.int8):
        return None
    outputs, inputs = codes.shape[0], codes.shape[1] * (codes.itemsize if codes.dtype == torch.int32 else 1)
    rows, groups = scale_shape(tuple(parts["scale"].shape), outputs)
    high, wide = block_of(rows, groups, (outputs, inputs), scheme)
    if wide % GROUP and groups > 1:
        return None
    table = parts["scale"].float().reshape(rows, groups)
    return table[torch.arange(outputs) // high][:, torch.arange(0, inputs, GROUP) // wide]


def kept(weight: Tensor, scales: Tensor | None) -> Tensor | None:
    """The scales in float16 where they and codes are this bf16 weight bit for bit; else None."""
    if scales is None or weight.ndim != 2 or scales.shape != (len(weight), -(-weight.shape[1] // GROUP)):
        return None
    half = scales.half()
    if not torch.equal(half.float(), scales):
        return None
    own = weight.detach().clone()
    setattr(own, STORED_SCALES, half)
    return half if torch.equal(int8_groups(own).values(), weight) else None


def save(folder: Path, scales: Mapping[str, Tensor]) -> None:
    """Writes the scales of weights by their names; nothing where there are none."""
    if scales:
        save_file({name: tensor.contiguous() for name, tensor in scales.items()}, folder / STORED_SCALES)
