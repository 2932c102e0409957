"""RMSNorm in Triton: each program takes a block of whole rows; residual, and fp8 with a scale per row, in one pass."""

import torch
import triton
import triton.language as tl

from kernels.check_args import check_tensor
from kernels.cuda.pdl_triton import pdl_options, pdl_prologue


@triton.jit
def _rmsnorm(
    x, w, residual, y, total, scales, m, n, x_step, residual_step, eps,
    RESIDUAL: tl.constexpr, QUANTISE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    pdl_prologue(PDL)
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    inside = (row < m)[:, None] & (column < n)[None, :]
    packed = row[:, None] * n + column[None, :]
    wide = tl.load(x + row[:, None] * x_step + column[None, :], mask=inside, other=0.0).to(tl.float32)
    if RESIDUAL:
        wide += tl.load(residual + row[:, None] * residual_step + column[None, :], mask=inside, other=0.0).to(
            tl.float32
        )
        tl.store(total + packed, wide.to(total.dtype.element_ty), mask=inside)
    mean = tl.sum(wide * wide, axis=1) / n
    weight = tl.load(w + column, mask=column < n, other=0.0).to(tl.float32)
    out = wide * tl.rsqrt(mean + eps)[:, None] * weight[None, :]
    if QUANTISE:
        scale = tl.maximum(tl.max(tl.abs(out), axis=1), 1e-30) / 448.0
        tl.store(scales + row, scale, mask=row < m)
        out /= scale[:, None]
    tl.store(y + packed, out.to(y.dtype.element_ty), mask=inside)


def rmsnorm(
    x: torch.Tensor,
    w: torch.Tensor,
    residual: torch.Tensor | None = None,
    eps: float = 1e-6,
    values: torch.dtype | None = None,
    rows: int = 1,
    warps: int = 4,
    pdl: bool = False,
) -> tuple[torch.Tensor, ...]:
    """(y,) of x [m, n] and w [n]; (values, scale [m, 1] float32) when a dtype for `values` is given.

    With a residual [m, n], x + residual is normed without rounding, and returned as the last output, rounded to x's
    dtype. The rows of x and residual may have any stride. A program of `warps` warps takes `rows` rows. `pdl` is a
    dependent launch. Raises ValueError that names the argument.
    """
    floats = (torch.bfloat16, torch.float16, torch.float32)
    check_tensor("x", x, (None, None), floats, x.device)
    m, n = x.shape
    check_tensor("w", w, (n,), floats, x.device)
    if residual is not None:
        check_tensor("residual", residual, (m, n), (x.dtype,), x.device)
    y = torch.empty((m, n), dtype=values or x.dtype, device=x.device)
    total = y if residual is None else torch.empty((m, n), dtype=x.dtype, device=x.device)
    scales = torch.empty((m, 1), dtype=torch.float32, device=x.device) if values else y
    if m:
        other = x if residual is None else residual
        _rmsnorm[(triton.cdiv(m, rows),)](
            x, w, other, y, total, scales, m, n, x.stride(0), other.stride(0), eps,
            RESIDUAL=residual is not None, QUANTISE=values is not None,
            ROWS=rows, BLOCK=triton.next_power_of_2(n), num_warps=warps, **pdl_options(pdl, x.device),
        )  # fmt: skip
    return (y, *((scales,) if values else ()), *(() if residual is None else (total,)))
