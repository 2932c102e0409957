"""Packs int8 weights in the order in which a small product multiplies them: [tiles of 64 rows, panels of 64 columns,
PACKED_BYTES]. Needs torch.

A tile of 64 × 64 is 4096 bytes of codes, 128 for 0, and 256 of float16 scales. Of each 32 columns, which share a scale,
every lane has 16 bytes in one word: its operands of two `wgmma`, in the order of their registers.
"""

import torch
from torch import Tensor

from kernels.gemm.small_tiles import PACKED_BYTES, PANEL
from kernels.quant.quantised_matrix import GROUP, QuantisedMatrix

TILE = 64
"""Rows of a tile: those of a warpgroup."""


def pack_int8(weight: QuantisedMatrix) -> Tensor:
    """The stream, uint8 [tiles, panels, PACKED_BYTES]. Rows and columns are filled up with zeros."""
    assert weight.block_scales is not None
    rows, columns = weight.codes.shape
    missing = (0, -columns % PANEL, 0, -rows % TILE)
    # tile, warp, row of 8, row in it | panel, group of 32, product, columns 8 to 15, lane of four, column
    codes = (
        torch.nn.functional.pad(weight.codes, missing).unflatten(0, (-1, 4, 2, 8)).unflatten(-1, (-1, 2, 2, 2, 4, 2))
    )
    placed = codes.permute(0, 4, 1, 5, 3, 8, 6, 7, 2, 9).flatten(2) ^ 128
    short = (0, placed.shape[1] * PANEL // GROUP - weight.block_scales.shape[1], 0, missing[3])
    scales = torch.nn.functional.pad(weight.block_scales, short).unflatten(0, (-1, 4, 2, 8)).unflatten(-1, (-1, 2))
    beside = scales.permute(0, 4, 1, 5, 3, 2).flatten(2).contiguous().view(torch.uint8)
    packed = torch.cat([placed, beside], dim=2)
    assert packed.shape[2] == PACKED_BYTES
    return packed.contiguous()
