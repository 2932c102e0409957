"""Rounding with error feedback: each column's error is made good by the columns that are not rounded yet.

The algorithm is GPTQ: E. Frantar, S. Ashkboos, T. Hoefler, D. Alistarh, *GPTQ: Accurate post-training quantization for
generative pre-trained transformers*, ICLR 2023, arXiv:2210.17323. The codes and scales are those of
`quantised_matrix.py`.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from kernels.quant import e2m1
from kernels.quant.quantised_matrix import (
    BLOCK,
    E2M1_MAX,
    E4M3_MAX,
    GROUP,
    INT4_MAX,
    QuantisedMatrix,
    best_blocks,
    check_finite,
    int4_scales,
    int_codes,
    power_of_two,
)

DAMPING = 0.01
"""Share of the mean diagonal that is added to the Hessian's, as in the paper."""
COLUMNS_TOGETHER = 128
"""Columns whose errors reach the later ones in one product."""


@torch.no_grad()
def gptq(matrices: Tensor, moments: Tensor, weights: str) -> list[QuantisedMatrix]:
    """Matrices [n, rows, columns] in fp8, nvfp4 or int4, for inputs with the second moments [n, columns, columns]: sums
    of x·xᵀ, in any scale, the Hessian of the squared error. Equal shapes are rounded together. Raises ValueError for
    other precisions or columns, and where not finite.
    """
    if weights == "int8":
        raise ValueError("rounding: int8 is rounded to nearest, not by gptq")
    check_finite(matrices, weights)
    columns = matrices.shape[2]
    if weights == "nvfp4" and columns % BLOCK:
        raise ValueError(f"weight: {columns} columns are no multiple of {BLOCK}, the block of nvfp4")
    left = matrices.float().clone()
    factors = torch.stack([inverse_factor(moment) for moment in moments])
    rounding = ROUNDINGS[weights](left)
    for begin in range(0, columns, COLUMNS_TOGETHER):
        end = min(begin + COLUMNS_TOGETHER, columns)
        block = left[:, :, begin:end].permute(2, 0, 1).contiguous()  # [columns, n, rows]
        factor = factors[:, begin:end, begin:end].permute(1, 2, 0).contiguous()  # [columns, columns, n]
        for at in range(end - begin):
            error = (block[at] - rounding.column(block[at:], begin + at)) / factor[at, at, :, None]
            block[at + 1 :] -= factor[at, at + 1 :, :, None] * error
            block[at] = error
        left[:, :, end:] -= block.permute(1, 2, 0) @ factors[:, begin:end, end:]
    return rounding.done()


def inverse_factor(moment: Tensor) -> Tensor:
    """The upper Cholesky factor of the damped moment's inverse, float32. Inputs that are always 0 count as 1."""
    wide = moment.double()
    diagonal = wide.diagonal()
    damped = wide + torch.diag(DAMPING * diagonal.mean() + (diagonal == 0).double())
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(damped))
    return torch.linalg.cholesky(inverse, upper=True).float()


class _Fp8:
    """e4m3 codes with a power of two per row."""

    def __init__(self, matrices: Tensor) -> None:
        self._scales = power_of_two(matrices.abs().amax(dim=2) / E4M3_MAX)
        self._codes = torch.empty(matrices.shape, dtype=torch.uint8, device=matrices.device)

    def column(self, ahead: Tensor, at: int) -> Tensor:
        """Rounds column `at`, the first of `ahead` [columns, n, rows]; its values [n, rows]."""
        codes = (ahead[0] / self._scales).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)
        self._codes[:, :, at] = codes.view(torch.uint8)
        return codes.float() * self._scales

    def done(self) -> list[QuantisedMatrix]:
        return [QuantisedMatrix(codes, scales) for codes, scales in zip(self._codes, self._scales, strict=True)]


class _Nvfp4:
    """e2m1 codes with an e4m3 scale per 16 columns, chosen as a block begins, and a power of two per matrix."""

    def __init__(self, matrices: Tensor) -> None:
        n, rows, columns = matrices.shape
        self._scales = power_of_two(matrices.abs().amax(dim=(1, 2)) / (E4M3_MAX * E2M1_MAX))
        self._codes = torch.empty(matrices.shape, dtype=torch.uint8, device=matrices.device)
        self._blocks = torch.empty(n, rows, columns // BLOCK, dtype=torch.uint8, device=matrices.device)
        self._unit = matrices.new_ones(n, rows)

    def column(self, ahead: Tensor, at: int) -> Tensor:
        if at % BLOCK == 0:
            block = ahead[:BLOCK].permute(1, 2, 0) / self._scales[:, None, None]
            scales = best_blocks(block)[1]
            self._blocks[:, :, at // BLOCK] = scales
            self._unit = scales.view(torch.float8_e4m3fn).float() * self._scales[:, None]
        codes = e2m1.codes(ahead[0] / self._unit)
        self._codes[:, :, at] = codes
        return e2m1.values(codes) * self._unit

    def done(self) -> list[QuantisedMatrix]:
        parts = zip(self._codes, self._scales, self._blocks, strict=True)
        return [QuantisedMatrix(codes, scale.repeat(len(codes)), blocks) for codes, scale, blocks in parts]


class _Int4:
    """int4 codes with a float16 scale per 32 columns, chosen as a group begins."""

    def __init__(self, matrices: Tensor) -> None:
        n, rows, columns = matrices.shape
        self._codes = torch.empty(matrices.shape, dtype=torch.uint8, device=matrices.device)
        self._scales = torch.empty(n, rows, -(-columns // GROUP), dtype=torch.float16, device=matrices.device)

    def column(self, ahead: Tensor, at: int) -> Tensor:
        if at % GROUP == 0:
            self._scales[:, :, at // GROUP] = int4_scales(ahead[:GROUP].permute(1, 2, 0))
        scales = self._scales[:, :, at // GROUP]
        codes = int_codes(ahead[0][..., None], scales, INT4_MAX)[..., 0]
        self._codes[:, :, at] = codes.to(torch.int8).view(torch.uint8)
        return codes * scales.float()

    def done(self) -> list[QuantisedMatrix]:
        ones = torch.ones(self._codes.shape[1], device=self._codes.device)
        return [QuantisedMatrix(codes, ones, scales) for codes, scales in zip(self._codes, self._scales, strict=True)]


ROUNDINGS: dict[str, Callable[[Tensor], "_Fp8 | _Nvfp4 | _Int4"]] = {"fp8": _Fp8, "nvfp4": _Nvfp4, "int4": _Int4}
