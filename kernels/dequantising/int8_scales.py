"""The scales of weights of up to 8 bits, kept beside the bf16 weights that they were dequantised to: so each code is
known.

A code of int8 times its scale, rounded to bf16, is off by a quarter of the scale at most.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from kernels.dequantising.layouts import Grouped
from kernels.quant.quantised_matrix import GROUP, STORED_SCALES, int8_groups

BLOCK_BYTES = {"Q8_0": 34, "Q4_0": 18}
"""The bytes of a block of GGUF's types: a float16 scale, and 32 codes."""


def of_gguf(stored: np.ndarray, dtype: str) -> np.ndarray | None:
    """The scales [rows, columns / 32] float32 of bytes [rows, bytes of a row] in Q8_0 or Q4_0; None of another type."""
    if dtype not in BLOCK_BYTES or stored.ndim != 2:
        return None
    blocks = stored.reshape(len(stored), -1, BLOCK_BYTES[dtype])[:, :, :2]
    return np.ascontiguousarray(blocks).view(np.float16)[:, :, 0].astype(np.float32)


def of_groups(weight: Tensor | Grouped) -> Tensor | None:
    """The scales [rows, columns / 32, rounded up] float32 of integers whose neighbours share one; None of others."""
    if not isinstance(weight, Grouped) or weight.codes.is_floating_point():
        return None
    groups = torch.nn.functional.pad(weight.groups, (0, -len(weight.groups) % GROUP), value=-1).view(-1, GROUP)
    alike = (groups == groups[:, :1]) | (groups < 0)
    return weight.scales[:, groups[:, 0]] if bool(alike.all()) else None


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
