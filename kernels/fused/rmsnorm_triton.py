"""RMSNorm in Triton: each program takes a block of whole rows; residual, and fp8 with a scale per row, in one pass."""

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from kernels.check_args import check_tensor
from kernels.cuda.pdl_triton import dependent, pdl_prologue


class Config(NamedTuple):
    """The constants of a build: a program takes ROWS rows of up to BLOCK elements."""

    RESIDUAL: bool
    QUANTISE: bool
    ROWS: int
    BLOCK: int
    PDL: bool


@triton.jit
def _rmsnorm(x, residual, w, out, shape, eps, C: tl.constexpr):
    """x and residual: a pointer and the stride of a row. out: y, total (with RESIDUAL), scales (with QUANTISE)."""
    pdl_prologue(C.PDL)
    x, x_step = x
    residual, residual_step = residual
    y, total, scales = out
    m, n = shape
    row = tl.program_id(0).to(tl.int64) * C.ROWS + tl.arange(0, C.ROWS)
    column = tl.arange(0, C.BLOCK)
    inside = (row < m)[:, None] & (column < n)[None, :]
    packed = row[:, None] * n + column[None, :]
    wide = tl.load(x + row[:, None] * x_step + column[None, :], mask=inside, other=0.0).to(tl.float32)
    if C.RESIDUAL:
        wide += tl.load(residual + row[:, None] * residual_step + column[None, :], mask=inside, other=0.0).to(
            tl.float32
        )
        tl.store(total + packed, wide.to(total.dtype.element_ty), mask=inside)
    mean = tl.sum(wide * wide, axis=1) / n
    weight = tl.load(w + column, mask=column < n, other=0.0).to(tl.float32)
    out = wide * tl.rsqrt(mean + eps)[:, None] * weight[None, :]
    if C.QUANTISE:
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
        launch_pdl = dependent(pdl, x.device)
        config = Config(residual is not None, values is not None, rows, triton.next_power_of_2(n), launch_pdl)
        _rmsnorm[(triton.cdiv(m, rows),)](
            (x, x.stride(0)), (other, other.stride(0)), w, (y, total, scales), (m, n), eps, config,
            num_warps=warps, launch_pdl=launch_pdl,
        )  # fmt: skip
    return (y, *((scales,) if values else ()), *(() if residual is None else (total,)))
