"""Packs int8 and e4m3 weights in the order in which a small product multiplies them: tiles of 64 rows, panels of 64
columns. Needs torch.

A tile of 64 × 64 is 4096 bytes of codes, of int8 128 for 0, and 256 of float16 scales. Of each 32 columns, which share
a scale, every lane has 16 bytes in one word: its operands of two `wgmma`, in the order of their registers. In e4m3 a
word has two codes of row g in the upper bytes of its halves, and those of row g + 8 in the lower ones; the float32
scales of 64 rows stand behind all of their panels.
"""

import torch
from torch import Tensor

from kernels.gemm.small_tiles import CODES_BYTES, PACKED_BYTES, PANEL
from kernels.quant.quantised_matrix import GROUP, QuantisedMatrix

TILE = 64
"""Rows of a tile: those of a warpgroup."""


def pack_int8(weight: QuantisedMatrix) -> Tensor:
    """The stream, uint8 [tiles, panels, PACKED_BYTES]. Rows and columns are filled up with zeros."""
    assert weight.block_scales is not None
    codes = _cells(weight.codes).permute(*_LANES, 2, 9).flatten(2) ^ 128
    short = (0, codes.shape[1] * PANEL // GROUP - weight.block_scales.shape[1], 0, -len(weight.codes) % TILE)
    scales = torch.nn.functional.pad(weight.block_scales, short).unflatten(0, (-1, 4, 2, 8)).unflatten(-1, (-1, 2))
    beside = scales.permute(0, 4, 1, 5, 3, 2).flatten(2).contiguous().view(torch.uint8)
    packed = torch.cat([codes, beside], dim=2)
    assert packed.shape[2] == PACKED_BYTES
    return packed.contiguous()


def pack_fp8(weight: QuantisedMatrix) -> Tensor:
    """The stream, uint8 [tiles, panels * CODES_BYTES + 4 * TILE]. Rows and columns are filled up with zeros."""
    codes = _cells(weight.codes).flip(2).permute(*_LANES, 9, 2).flatten(1)
    scales = torch.nn.functional.pad(weight.row_scales, (0, -len(weight.row_scales) % TILE)).view(-1, TILE)
    assert codes.shape[1] % CODES_BYTES == 0
    return torch.cat([codes, scales.view(torch.uint8)], dim=1).contiguous()


def _cells(codes: Tensor) -> Tensor:
    """Codes [rows, columns], filled up with zeros, as [tile, warp, row of 8, row in it, panel, group of 32, product,
    columns 8 to 15, lane of four, column].
    """
    missing = (0, -codes.shape[1] % PANEL, 0, -len(codes) % TILE)
    return torch.nn.functional.pad(codes, missing).unflatten(0, (-1, 4, 2, 8)).unflatten(-1, (-1, 2, 2, 2, 4, 2))


_LANES = (0, 4, 1, 5, 3, 8, 6, 7)
"""Dimensions of `_cells` in the order of the stream, but for rows g and g + 8 and a column's place in its pair."""
