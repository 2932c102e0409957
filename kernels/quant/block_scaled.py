"""MXFP8 and NVFP4 operands as the tensor cores of sm_100 take them: values, scales of blocks, a scale of the tensor.

MXFP8 is e4m3 with a power of two (ue8m0) for each 32 values of a row (Open Compute Project, *OCP Microscaling Formats
(MX) Specification*, 1.0), rounded up so that no value saturates (A. Mishra et al., *Recipes for Pre-training LLMs with
MXFP8*, arXiv 2506.08027). NVFP4 is e2m1 with an e4m3 scale for each 16 values of a row and a float32 scale.

Scales lie in tiles of 128 rows × 4 scales, 512 bytes: the scale of row r and column c of a tile is byte
16 · (r mod 32) + 4 · (r / 32) + c. Source: cuBLAS, *Block Scaling Factors Layout*.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from kernels.quant import e2m1
from kernels.quant.absmax import nvfp4_absmax
from kernels.quant.formats import E4M3_MAX, Scales

BlockScales = Literal["block32", "block16"]
VALUES: dict[str, int] = {"block32": 32, "block16": 16}
"""Values of a row that share a scale."""

STAGE_SCALES: dict[str, int] = {"block32": 4, "block16": 16}
"""Scales of a row in 128 bytes of K, which a product takes at a time."""

TILE_ROWS, TILE_SCALES, TILE_BYTES = 128, 4, 512
_BIAS = 127

Operand = tuple[Tensor, Tensor, Tensor]
"""Values (e4m3 [rows, k], or two e2m1 codes a byte [rows, k / 2], the even column in the low bits), tiles of scales
uint8 [⌈rows / 128⌉, scales / 4, 512], and the scale of the tensor, float32 []."""


@dataclass(frozen=True)
class Rounded:
    """An operand before its scales are laid in tiles: `values` as in `Operand`, `scales` uint8 [rows, ⌈k / block⌉]."""

    values: Tensor
    scales: Tensor
    tensor_scale: float


def named(scales: Scales | None) -> BlockScales | None:
    """The block scales of a case; None where its operands have none, or float32 ones."""
    return scales if scales == "block32" or scales == "block16" else None


def rounded(x: Tensor, scales: BlockScales) -> Rounded:
    """x [rows, k], rounded to nearest. Raises ValueError where k is no multiple of the block."""
    block = VALUES[scales]
    if x.shape[1] % block:
        raise ValueError(f"k is {x.shape[1]}: {scales} scales take multiples of {block}")
    if scales == "block16":
        nvfp4 = nvfp4_absmax(x)
        packed = nvfp4.codes[:, ::2] | nvfp4.codes[:, 1::2] << 4
        return Rounded(packed.contiguous(), nvfp4.scales.view(torch.uint8), nvfp4.tensor_scale)
    blocks = x.float().unflatten(1, (-1, block))
    exponents = torch.ceil(torch.log2(blocks.abs().amax(dim=2).clamp_min(2.0**-_BIAS) / E4M3_MAX)).clamp(-_BIAS, _BIAS)
    values = (blocks * torch.exp2(-exponents)[..., None]).to(torch.float8_e4m3fn).flatten(1)
    return Rounded(values, (exponents + _BIAS).to(torch.uint8), 1.0)


def operand(x: Tensor, scales: BlockScales, rows: int = TILE_ROWS) -> Operand:
    """x [rows, k] as a product takes it. Zeros pad its scales to multiples of `rows` and of 128 bytes of K."""
    quantised = rounded(x, scales)
    tensor_scale = torch.tensor(quantised.tensor_scale, dtype=torch.float32, device=x.device)
    return quantised.values, in_tiles(quantised.scales, rows, STAGE_SCALES[scales]), tensor_scale


def in_tiles(scales: Tensor, rows: int, columns: int) -> Tensor:
    """uint8 [rows, scales] as tiles [row tiles, column tiles, 512], after padding to these multiples."""
    padded = pad(scales, (0, -scales.shape[1] % columns, 0, -scales.shape[0] % rows))
    split = padded.view(-1, TILE_ROWS // 32, 32, padded.shape[1] // TILE_SCALES, TILE_SCALES)
    return split.permute(0, 3, 2, 1, 4).reshape(split.shape[0], split.shape[3], TILE_BYTES)


def dequantise(rounded: Rounded, scales: BlockScales) -> Tensor:
    """The values that an operand represents, float32 [rows, k]."""
    if scales == "block16":
        codes = torch.stack((rounded.values & 15, rounded.values >> 4), dim=2).flatten(1)
        values, of_block = e2m1.values(codes), rounded.scales.view(torch.float8_e4m3fn).float()
    else:
        values, of_block = rounded.values.float(), torch.exp2(rounded.scales.float() - _BIAS)
    return values * of_block.repeat_interleave(VALUES[scales], dim=1) * rounded.tensor_scale


def through(x: Tensor, scales: BlockScales) -> Tensor:
    """x [rows, k] as it is represented after rounding, float32."""
    return dequantise(rounded(x, scales), scales)
