"""The scales and zeros of weights of up to 8 bits, kept beside the bf16 weights that they were dequantised to: so each
code is known.

A code of int8 times its scale, rounded to bf16, is off by a quarter of the scale at most.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from kernels.dequantising.layouts import Grouped
from kernels.quant.quantised_matrix import (
    GROUP,
    MIDDLE,
    STORED_SCALES,
    STORED_ZEROS,
    in_pairs,
    in_range,
    int4_minimum,
    int8_groups,
)

BLOCK_NUMBERS = {"Q8_0": (34, 1), "Q4_0": (18, 1), "Q4_1": (20, 2)}
"""The bytes of a block of GGUF's types, and its float16 numbers: a scale, and perhaps a minimum; 32 codes follow."""


class Groups(NamedTuple):
    """Scales [rows, columns / 32, rounded up] float32, and zero points (int8) or minimums (float32), if any."""

    scales: Tensor
    zeros: Tensor | None = None


def of_gguf(stored: np.ndarray, dtype: str) -> list[np.ndarray]:
    """The scales of bytes [rows, bytes of a row] in Q8_0, Q4_0 or Q4_1, [rows, columns / 32] float32, and of the last
    one the minimums; [] of another type.
    """
    if dtype not in BLOCK_NUMBERS or stored.ndim != 2:
        return []
    size, count = BLOCK_NUMBERS[dtype]
    blocks = np.ascontiguousarray(stored.reshape(len(stored), -1, size)[:, :, : 2 * count]).view(np.float16)
    return [blocks[:, :, number].astype(np.float32) for number in range(count)]


def of_groups(weight: Tensor | Grouped) -> Groups | None:
    """Those of integers whose neighbours share a scale; None of others. Zero points are kept where codes of four bits
    need them, in groups of a multiple of 64 columns.
    """
    if not isinstance(weight, Grouped) or weight.codes.is_floating_point():
        return None
    groups = torch.nn.functional.pad(weight.groups, (0, -len(weight.groups) % GROUP), value=-1).view(-1, GROUP)
    alike = (groups == groups[:, :1]) | (groups < 0)
    if not bool(alike.all()):
        return None
    scales, zeros, codes = weight.scales[:, groups[:, 0]], weight.zeros, weight.codes
    if zeros is None or in_range(codes + MIDDLE) or not in_range(codes + zeros[:, weight.groups]):
        return Groups(scales)
    own = zeros[:, groups[:, 0]].to(torch.int8)
    return Groups(scales, own) if in_pairs(scales) and in_pairs(own) else Groups(scales)


def kept(weight: Tensor, stored: Groups | None) -> Groups | None:
    """The scales and minimums in float16 where they and codes are this bf16 weight bit for bit; else None."""
    if stored is None or weight.ndim != 2 or stored.scales.shape != (len(weight), -(-weight.shape[1] // GROUP)):
        return None
    scales, zeros = stored.scales.half(), stored.zeros
    minimums = zeros is not None and zeros.is_floating_point()
    exact = torch.equal(scales.float(), stored.scales)
    if zeros is not None and minimums:
        half = zeros.half()
        exact, zeros = exact and torch.equal(half.float(), zeros), half
    if not exact:
        return None
    own = weight.detach().clone()
    setattr(own, STORED_SCALES, scales)
    setattr(own, STORED_ZEROS, zeros)
    matrix = (int4_minimum if minimums else int8_groups)(own)
    return Groups(scales, zeros) if torch.equal(matrix.values(), weight) else None


def save(folder: Path, groups: Mapping[str, Groups]) -> None:
    """Writes scales and zeros of weights by their names; no file where there are none."""
    zeros = {name: own.zeros for name, own in groups.items() if own.zeros is not None}
    for file, tensors in ((STORED_SCALES, {name: own.scales for name, own in groups.items()}), (STORED_ZEROS, zeros)):
        if tensors:
            save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / file)
