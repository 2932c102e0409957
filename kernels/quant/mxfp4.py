"""MXFP4: e2m1 codes with a power of two for 32 columns (OCP MX 1.0). bf16 holds every value exactly."""

import torch
from torch import Tensor

from kernels.quant import e2m1

BLOCK = 32
"""Columns that share a scale."""
BIAS, MAX_EXPONENT, MAX_SCALE = 127, 2, 240
"""Of a scale's exponent; the exponent of the largest e2m1 number, 6; and the largest scale: kernels add 14 to it."""


@torch.no_grad()
def mxfp4_blocks(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Codes uint8 [rows, columns] and scales uint8 [rows, columns / 32, rounded up], 2^(scale - 127); values stored in
    MXFP4 are kept. Raises ValueError for a weight not finite or above 2¹¹³.
    """
    missing = -weight.shape[1] % BLOCK
    blocks = torch.nn.functional.pad(weight.float(), (0, missing)).unflatten(1, (-1, BLOCK))
    largest = blocks.abs().amax(-1)
    exponents = torch.where(largest > 0, torch.frexp(largest).exponent - 1 - MAX_EXPONENT, 0).clamp(min=-BIAS)
    scales = exponents + BIAS
    if not bool((torch.isfinite(largest) & (scales <= MAX_SCALE)).all()):
        raise ValueError("weight: it holds numbers that are not finite or too large for mxfp4")
    codes = e2m1.codes(torch.ldexp(blocks, -exponents[..., None]))
    return codes.flatten(1)[:, : weight.shape[1]].contiguous(), scales.to(torch.uint8)


def scale_values(scales: Tensor) -> Tensor:
    """The float32 numbers of scales."""
    return scales.view(torch.float8_e8m0fnu).float()
