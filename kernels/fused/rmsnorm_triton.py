"""RMSNorm in Triton: each program takes a block of whole rows; residual, and fp8 with a scale per row, in one pass."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.check_args import check_outputs, check_tensor
from kernels.cuda.call import CudaCall, Output, Prepared, allocation, launch_nothing
from kernels.cuda.pdl_triton import pdl_prologue, uses_pdl
from kernels.cuda.triton_launch import prepared
from kernels.ops.base import EPSILON

FLOATS = (torch.bfloat16, torch.float16, torch.float32)


class Config(NamedTuple):
    """The constants of a build: a program takes ROWS rows of up to BLOCK elements."""

    RESIDUAL: bool
    QUANTISE: bool
    ROWS: int
    BLOCK: int
    PDL: bool


@triton.jit(do_not_specialize=["m"])  # else one row, multiples of 16 and others are compiled each
def _rmsnorm(x, residual, w, out, m, n, eps, C: tl.constexpr):
    """x and residual: a pointer and the stride of a row. out: y, total (with RESIDUAL), scales (with QUANTISE)."""
    pdl_prologue(C.PDL)
    x, x_step = x
    residual, residual_step = residual
    y, total, scales = out
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


class NormArguments(NamedTuple):
    """The arguments of a call, in their order."""

    x: Tensor
    w: Tensor
    residual: Tensor | None = None
    eps: float = EPSILON


def norm_layout(values: Iterable[Any]) -> tuple[Any, ...]:
    """What can differ between the outputs and arguments of two right calls: the case fixes the length of a row."""
    out, x, w, *rest = values
    residual, *eps = rest or (None,)
    outputs = tuple([y.data_ptr() for y in out]) if isinstance(out, tuple) else out.data_ptr()
    added = None if residual is None else (residual.data_ptr(), residual.stride())
    return outputs, x.data_ptr(), x.numel(), x.stride(), w.data_ptr(), added, *eps


class RmsNorm(CudaCall):
    """f(x, w, residual=None, eps=1e-6, out=None) -> y of x [m, n] and w [n]; (values, scale [m, 1] float32) when a
    dtype for `values` is given.

    With a residual [m, n], x + residual is normed without rounding, and returned as the last output, rounded to x's
    dtype. The rows of x and residual may have any stride. A program of `warps` warps takes `rows` rows. `pdl` is a
    dependent launch. Raises ValueError that names the argument.
    """

    open_layout = staticmethod(norm_layout)
    in_order = NormArguments

    def __init__(self, values: torch.dtype | None = None, rows: int = 1, warps: int = 4, pdl: bool = False) -> None:
        super().__init__()
        self.values, self.rows, self.warps, self.pdl = values, rows, warps, pdl

    def _prepare(self, check: bool, stream: int, out: Any, /, *arguments: Any, **named: Any) -> Prepared:
        x, w, residual, eps = NormArguments(*arguments, **named)
        if check:
            _check(x, w, residual)
        (m, n), values = x.shape, self.values
        outputs = [Output("out", (m, n), values or x.dtype)]
        if values:
            outputs.append(Output("out's scale", (m, 1), torch.float32))
        if residual is not None:
            outputs.append(Output("out's x + residual", (m, n), x.dtype))
        allocate = allocation(outputs, x.device)
        if check:
            check_outputs(out, outputs, x.device)
        if not m:
            return Prepared(allocate, lambda _: launch_nothing)
        pdl = uses_pdl(self.pdl, x.device)
        config = Config(residual is not None, values is not None, self.rows, triton.next_power_of_2(n), pdl)
        other = x if residual is None else residual

        def passed(outputs: Any) -> tuple[Any, ...]:
            tensors = (outputs,) if isinstance(outputs, Tensor) else outputs
            y, scale, total = tensors[0], tensors[1 if values else 0], tensors[0 if residual is None else -1]
            rows = (x, x.stride(0)), (other, other.stride(0))
            return (*rows, w, (y, total, scale), m, n, float(eps), config)

        grid = (triton.cdiv(m, self.rows),)
        return prepared(_rmsnorm, grid, stream, allocate, passed, num_warps=self.warps, launch_pdl=pdl)


def _check(x: Tensor, w: Tensor, residual: Tensor | None) -> None:
    check_tensor("x", x, (None, None), FLOATS, x.device)
    m, n = x.shape
    check_tensor("w", w, (n,), FLOATS, x.device)
    if residual is not None:
        check_tensor("residual", residual, (m, n), (x.dtype,), x.device)
