"""Matrices as tiles of core matrices, which `ldmatrix` and wgmma both read without a swizzle."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

TILE = 16
"""Rows and columns of a tile."""


def core_matrices(weight: "torch.Tensor") -> "torch.Tensor":
    """A matrix [..., rows, columns] of 16-bit values as [..., rows / 16, columns / 16, 256].

    A tile of 16 × 16 values is four core matrices of 8 rows × 16 bytes: rows 0 to 7 and 8 to 15 of its first eight
    columns, then of the others. So lane l of a warp points `ldmatrix` 16 · l bytes into a tile, and along a row of
    tiles each eight columns of 16 rows are 256 bytes.
    """
    *outer, rows, columns = weight.shape
    split = weight.reshape(-1, rows // TILE, 2, 8, columns // TILE, 2, 8)  # row half, row; column half, column
    return split.permute(0, 1, 4, 5, 2, 3, 6).reshape(*outer, rows // TILE, columns // TILE, TILE * TILE)
