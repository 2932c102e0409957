"""4-bit numbers: a sign, two bits of exponent, one of mantissa; the values of NVFP4 beneath its scales."""

from itertools import pairwise

import torch
from torch import Tensor

from kernels.quant.formats import E2M1


def codes(x: Tensor) -> Tensor:
    """The nearest codes, ties to even, clamped to ±6; uint8, bit 3 is the sign."""
    size = x.abs()
    code = torch.zeros_like(x, dtype=torch.uint8)
    for number, (low, high) in enumerate(pairwise(E2M1)):
        middle = (low + high) / 2
        code += size >= middle if number % 2 else size > middle
    return code | (x < 0).byte() << 3


def values(codes: Tensor) -> Tensor:
    """The float32 values of codes 0 to 15."""
    table = torch.tensor([*E2M1, *(-magnitude for magnitude in E2M1)], device=codes.device)
    return table[codes.int()]
