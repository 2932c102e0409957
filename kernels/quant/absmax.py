"""The weights of single products in int8, fp8, nvfp4 and int4. Imports torch.

Integers and fp8 are those of `quantised_matrix.py`. So values that a whole model was rounded to, by GPTQ say, are
rounded to themselves in fp8. The scales of nvfp4 (e4m3, per 16 values) are absmax: the largest value of what shares a
scale becomes the largest code.
"""

from dataclasses import dataclass

import torch

from kernels.quant import e2m1, mxfp4
from kernels.quant.formats import E4M3_MAX, INT4
from kernels.quant.quantised_matrix import GROUP, MIDDLE, QUANTISERS, fp8_rows, int8_groups

NVFP4_BLOCK = 16


@dataclass(frozen=True)
class QuantisedWeight:
    """A weight [rows, k] as codes and scales.

    int8:  codes int8; scales [rows, k / 32] float16
    int4:  codes uint8, 0 to 15; scales as int8; as many zeros, 8 where symmetric: those of `QuantisedMatrix`
    fp8:   codes float8_e4m3fn; scales [rows] float32
    nvfp4: codes uint8 (e2m1); scales [rows, k / 16] float8_e4m3fn, times `tensor_scale`
    mxfp4: as `mxfp4_blocks`

    The last block or group may be short.
    """

    codes: torch.Tensor
    scales: torch.Tensor
    tensor_scale: float = 1.0
    zeros: torch.Tensor | None = None


def quantise_absmax(weight: torch.Tensor, weights: str) -> QuantisedWeight:
    """The weight [rows, k] as int8, fp8, nvfp4, mxfp4 or a form of int4. Raises ValueError for others."""
    if weights == "fp8":
        quantised_weight = fp8_rows(weight)
        return QuantisedWeight(quantised_weight.codes.view(torch.float8_e4m3fn), quantised_weight.row_scales)
    if weights == "int8":
        groups = int8_groups(weight)
        assert groups.block_scales is not None
        return QuantisedWeight(groups.codes.view(torch.int8), groups.block_scales)
    if weights == "nvfp4":
        return nvfp4_absmax(weight)
    if weights == "mxfp4":
        return QuantisedWeight(*mxfp4.mxfp4_blocks(weight))
    if weights in INT4:
        own = QUANTISERS[weights](weight)
        assert own.block_scales is not None
        if own.zeros is not None:
            return QuantisedWeight(own.codes, own.block_scales, zeros=own.zeros)
        middles = torch.full(own.block_scales.shape, MIDDLE, dtype=torch.int8, device=weight.device)
        return QuantisedWeight(own.codes + MIDDLE, own.block_scales, zeros=middles)
    raise ValueError(f"weights is {weights}: int8, fp8, nvfp4, mxfp4 and int4 are known")


def nvfp4_absmax(weight: torch.Tensor) -> QuantisedWeight:
    """e2m1 with an e4m3 scale per 16 values of a row, and one float32 scale for the whole tensor."""
    blocks = _groups(weight.float(), NVFP4_BLOCK)
    tensor_scale = max(float(blocks.abs().max()) / (6 * E4M3_MAX), 1e-30)
    scales = (blocks.abs().amax(dim=2) / (6 * tensor_scale)).clamp(max=E4M3_MAX).to(torch.float8_e4m3fn)
    unit = scales.float() * tensor_scale
    quotients = torch.where(unit[..., None] > 0, blocks / unit[..., None].clamp_min(1e-38), torch.zeros_like(blocks))
    return QuantisedWeight(e2m1.codes(quotients).flatten(1)[:, : weight.shape[1]].contiguous(), scales, tensor_scale)


def values(quantised: QuantisedWeight) -> torch.Tensor:
    """The float32 values [rows, k] that the codes stand for."""
    if quantised.scales.dtype == torch.uint8:
        scales = _spread(mxfp4.scale_values(quantised.scales), mxfp4.BLOCK, quantised.codes.shape[1])
        return e2m1.values(quantised.codes) * scales
    codes, scales = quantised.codes, quantised.scales.float()
    if codes.dtype == torch.float8_e4m3fn:
        return codes.float() * scales[:, None]
    if codes.dtype == torch.int8:
        return codes.float() * _spread(scales, GROUP, codes.shape[1])
    if quantised.zeros is None:
        return e2m1.values(codes) * (_spread(scales, NVFP4_BLOCK, codes.shape[1]) * quantised.tensor_scale)
    zeros, scales = (_spread(part, GROUP, codes.shape[1]) for part in (quantised.zeros.float(), scales))
    if quantised.zeros.is_floating_point():
        return codes.float() * scales + zeros
    return (codes.float() - zeros) * scales


def _groups(wide: torch.Tensor, size: int) -> torch.Tensor:
    """[rows, k] as [rows, groups, size], the last group filled with zeros."""
    missing = -wide.shape[1] % size
    return torch.nn.functional.pad(wide, (0, missing)).view(wide.shape[0], -1, size)


def _spread(scales: torch.Tensor, size: int, k: int) -> torch.Tensor:
    return scales.repeat_interleave(size, dim=1)[:, :k]
