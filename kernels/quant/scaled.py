"""e4m3 values with float32 scales: the operands x and w of a product with `scales`.

Layouts: `tensor` one scale []; `row` one for each row [m, 1] (w: [n, 1]); `block` one for 1 × 128 of x, [m, ⌈k / 128⌉]
with the rows next to each other in memory (stride (1, m)), and one for 128 × 128 of w, [⌈n / 128⌉, ⌈k / 128⌉]. Each
scale maps the largest value of its group to 448.
"""

import torch
from torch.nn.functional import pad

from kernels.quant.formats import E4M3_MAX, Scales

BLOCK = 128

Scaled = tuple[torch.Tensor, torch.Tensor]


def of_x(x: torch.Tensor, scales: Scales) -> Scaled:
    """(values e4m3 [m, k], scales) with x ≈ values · scales."""
    values, factors = _quantised(x, scales, rows=1)
    return values, factors.t().contiguous().t() if scales == "block" else factors


def of_w(w: torch.Tensor, scales: Scales) -> Scaled:
    """(values e4m3 [n, k], scales) with w ≈ values · scales."""
    return _quantised(w, scales, rows=BLOCK)


def dequantise(scaled: Scaled) -> torch.Tensor:
    """values · scales, float32 [rows, k]."""
    values, scales = scaled
    return values.float() * _spread(scales, values.shape)


def through_fp8(y: torch.Tensor) -> torch.Tensor:
    """y as fp8 with a scale per row represents it, float32."""
    return dequantise(of_x(y, "row"))


def _quantised(x: torch.Tensor, scales: Scales, rows: int) -> Scaled:
    wide = x.float()
    factors = _largest(wide.abs(), scales, rows).clamp_min(1e-30) / E4M3_MAX
    return (wide / _spread(factors, x.shape)).to(torch.float8_e4m3fn), factors


def _largest(x: torch.Tensor, scales: Scales, rows: int) -> torch.Tensor:
    if scales == "tensor":
        return x.amax() if x.numel() else x.new_zeros(())
    if scales == "row":
        return x.amax(dim=1, keepdim=True)
    m, k = x.shape
    padded = pad(x, (0, -k % BLOCK, 0, -m % rows))
    return padded.view(padded.shape[0] // rows, rows, padded.shape[1] // BLOCK, BLOCK).amax(dim=(1, 3))


def _spread(scales: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """The scales of each value: broadcastable to [rows, k]."""
    if scales.dim() == 0 or scales.shape == (shape[0], 1):
        return scales
    rows = 1 if scales.shape[0] == shape[0] else BLOCK
    return scales.repeat_interleave(rows, dim=0)[: shape[0]].repeat_interleave(BLOCK, dim=1)[:, : shape[1]]
