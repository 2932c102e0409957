"""Packs weights in the order in which a skinny product streams them: [units, splits, steps, warps, tiles, step]. Needs
torch.

Of every 32 columns, lane 4g + t of a warp holds columns 8t to 8t + 7 of rows g and g + 8 of its tile. They meet 8
neighbouring values of x. Within a step the order is that of the operand registers of `mma.m16n8k16`: see
skinny_weights.cuh.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from kernels.gemm.skinny_tiles import STEP_K, TileConfig
from kernels.quant.absmax import NVFP4_BLOCK, QuantisedWeight
from kernels.quant.gf2 import gf2_inverse
from kernels.quant.mxfp4 import BLOCK as MXFP4_BLOCK
from kernels.quant.quantised_matrix import GROUP


def pair_gate_up(weight: Tensor) -> Tensor:
    """gate and up [2n, ...] as tiles of 8 gate rows and the 8 matching up rows; n is padded to a multiple of 8."""
    gate, up = weight.chunk(2)
    padded = [
        pad(part, (*(0, 0) * (part.dim() - 1), 0, -part.shape[0] % 8)).unflatten(0, (-1, 8)) for part in (gate, up)
    ]
    return torch.stack(padded, dim=1).flatten(0, 2)


def pack_16bit(weight: Tensor, config: TileConfig) -> Tensor:
    """bf16 or fp16 [rows, k] as the stream, uint8: for each product of the step 16 bytes a lane."""
    cells = _by_position(weight.view(torch.int16), config, 1)
    return _bytes(cells.permute(*_OUTER, 8, 9, _J, _G, _T, _PAIR, _HALF, _E)).flatten()


def pack_fp8(codes: Tensor, config: TileConfig) -> Tensor:
    """float8_e4m3fn [rows, k] as the stream, uint8: each lane has both products of a step in one 16-byte word."""
    cells = _by_position(codes.view(torch.uint8), config, 1)
    return _bytes(cells.permute(*_OUTER, 8, 9, _G, _T, _J, _PAIR, _HALF, _E)).flatten()


def pack_int8(quantised: QuantisedWeight, config: TileConfig) -> Tensor:
    """int8 codes and float16 scales as the stream, uint8: 512 bytes of codes, 128 for 0, then 32 of scales."""
    cells = _by_position(quantised.codes.view(torch.uint8), config, 1) ^ 128
    codes = _bytes(cells.permute(*_OUTER, 8, 9, _G, _T, _J, _PAIR, _HALF, _E)).flatten(6)
    scales = _per_group(quantised.scales.view(torch.int16), config, GROUP, ()).permute(*_OUTER, _G, _HALF)
    return torch.cat([codes, _bytes(scales).flatten(6)], dim=-1).flatten()


def pack_nvfp4(quantised: QuantisedWeight, config: TileConfig) -> Tensor:
    """e2m1 codes and e4m3 scales as the stream, uint8: 512 bytes of codes, 64 of scales."""
    words = _pack_words(quantised.codes, config, gf2_inverse(codes_of))
    scales = _per_group(quantised.scales.view(torch.uint8), config, NVFP4_BLOCK, (2, 2)).permute(
        *_OUTER, _G, 9, 8, _HALF
    )
    return torch.cat([words, _bytes(scales).flatten(6)], dim=-1).flatten()


def pack_mxfp4(quantised: QuantisedWeight, config: TileConfig) -> Tensor:
    """e2m1 codes and exponents as the stream, uint8: 512 bytes of codes, 32 of exponents."""
    words = _pack_words(quantised.codes, config, gf2_inverse(codes_of))
    scales = _per_group(quantised.scales, config, MXFP4_BLOCK, (2,)).permute(*_OUTER, _G, 8, _HALF)
    return torch.cat([words, _bytes(scales).flatten(6)], dim=-1).flatten()


def pack_int4(quantised: QuantisedWeight, config: TileConfig) -> Tensor:
    """4-bit codes, scales and zeros, if any, as the stream, uint8: 512 bytes of codes, then 64 or 128."""
    if quantised.zeros is None:
        raise ValueError("quantised has no zeros: it is not of 4-bit integers")
    bits = [1 << pair * 4 + half * 16 + bit for pair in range(4) for half in range(2) for bit in range(4)]
    words, zeros = _pack_words(quantised.codes, config, bits), quantised.zeros
    groups, wide = quantised.scales, config.kind == "int4_zero"
    columns = zeros.shape[1] + zeros.shape[1] % 2
    halves = [
        _per_group(_pad(part, len(part), columns)[:, :: 1 + wide], config, (1 + wide) * GROUP, () if wide else (2,))
        for part in (groups, zeros)
    ]
    scales, zeros = (part.permute(*_OUTER, *(() if wide else (8,)), _G, _HALF) for part in halves)
    numbers = [scales.view(torch.int16)]
    if wide:
        taken = -(torch.tensor([1024.0, 64.0], device=zeros.device) + zeros)  # of row g, and of row g + 8
        numbers.append(taken.half().view(torch.int16))
    elif config.kind == "int4_minimum":
        numbers.append(zeros.half().view(torch.int16))
    return torch.cat([words, _bytes(torch.cat(numbers, dim=-1)).flatten(6)], dim=-1).flatten()


def pairs_of(word: int) -> list[int]:
    """The four pairs of fp16 into which the kernel unpacks eight e2m1 codes: `eight_e2m1` of skinny_weights.cuh."""
    rotated = word << 3 | word >> 29
    return [bits & 0x8E008E00 for bits in (rotated << 9, rotated << 6, word ^ rotated, word ^ word << 5)]


def codes_of(word: int) -> int:
    """The eight codes of a word, the first lowest: sign at bit 15 of an fp16, magnitude at bits 9 to 11."""
    halves = (pair >> shift for pair in pairs_of(word) for shift in (0, 16))
    return sum((half >> 12 & 8 | half >> 9 & 7) << 4 * i for i, half in enumerate(halves))


def pad_rows(tensor: Tensor, config: TileConfig) -> Tensor:
    """One value for each packed row; 0 for the padding rows of the last unit."""
    return pad(tensor, (0, config.units * config.unit_rows - tensor.shape[0]))


_OUTER = (0, 5, 6, 1, 7, 2)
"""Positions of the outer dimensions: units, splits, steps, row warps, k warps, tiles."""

_HALF, _G, _T, _J, _PAIR, _E = 3, 4, 10, 11, 12, 13
"""Dimensions of `_cells`: half of a tile, row g of it; and of 32 columns lane t, product, pair of values, value."""


def _row_shape(config: TileConfig) -> tuple[int, ...]:
    return (config.units, config.warps // config.k_warps, config.row_tiles, 2, 8)


def _by_position(weight: Tensor, config: TileConfig, blocks: int) -> Tensor:
    """[rows, k] reshaped by position: the row's dimensions, then split, step, k warp, `blocks` of 64 columns, 32-column
    halves, and the order within them.
    """
    full = _pad(weight, config.units * config.unit_rows, config.splits * config.split_k)
    halves = STEP_K[config.kind] // 32 // blocks
    return full.view(*_row_shape(config), config.splits, config.steps, config.k_warps, blocks, halves, 4, 2, 2, 2)


def _pack_words(codes: Tensor, config: TileConfig, adds: list[int]) -> Tensor:
    """4-bit codes as 32-bit words [.., bytes of a step]: 8 codes each, in the order of the registers. Bit i of the
    eight codes, lowest first, contributes `adds[i]` to its word by exclusive or.
    """
    cells = _by_position(codes, config, STEP_K[config.kind] // 64).permute(*_OUTER, 8, _G, _T, 9, _J, _PAIR, _HALF, _E)
    words = torch.zeros(cells.shape[:-3], dtype=torch.int32, device=codes.device)
    for code in range(8):
        eighth = cells[..., code // 4, code // 2 % 2, code % 2].int()
        for bit in range(4):
            added = adds[4 * code + bit]
            words ^= (eighth >> bit & 1) * (added - (added >> 31 << 32))
    return _bytes(words).flatten(6)


def _per_group(tensor: Tensor, config: TileConfig, size: int, inner: tuple[int, ...]) -> Tensor:
    """One value per row and group of columns, [rows, groups], in the positions of `_cells`."""
    full = _pad(tensor, config.units * config.unit_rows, config.splits * config.split_k // size)
    return full.view(*_row_shape(config), config.splits, config.steps, config.k_warps, *inner)


def _pad(tensor: Tensor, rows: int, columns: int) -> Tensor:
    return pad(tensor, (0, columns - tensor.shape[1], 0, rows - tensor.shape[0]))


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(torch.uint8)
