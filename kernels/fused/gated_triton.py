"""Gated activations in Triton: elementwise over the columns of each row."""

from typing import Any, get_args

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.check_args import check_outputs, check_tensor
from kernels.cuda.call import CudaCall, Output, Prepared, allocation, launch_nothing, size_and_strides
from kernels.cuda.pdl_triton import pdl_prologue, uses_pdl
from kernels.cuda.triton_launch import prepared
from kernels.ops.gated import SWIGLUOAI_ALPHA, SWIGLUOAI_LIMIT, Activation

FLOATS = (torch.bfloat16, torch.float16, torch.float32)
ALPHA, LIMIT = tl.constexpr(SWIGLUOAI_ALPHA), tl.constexpr(SWIGLUOAI_LIMIT)


@triton.jit
def _gated(gate_up, y, n, step, blocks, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr):
    pdl_prologue(PDL)
    program = tl.program_id(0)
    row = (program // blocks).to(tl.int64)
    column = program % blocks * BLOCK + tl.arange(0, BLOCK)
    inside = column < n
    at = gate_up + row * step
    if ACTIVATION == "swigluoai":
        gate = tl.load(at + 2 * column, mask=inside, other=0.0).to(tl.float32)
        up = tl.load(at + 2 * column + 1, mask=inside, other=0.0).to(tl.float32)
        gate = tl.minimum(gate, LIMIT, propagate_nan=tl.PropagateNan.ALL)
        up = tl.clamp(up, -LIMIT, LIMIT, propagate_nan=tl.PropagateNan.ALL) + 1
        bent = ALPHA * gate
    else:
        gate = tl.load(at + column, mask=inside, other=0.0).to(tl.float32)
        up = tl.load(at + n + column, mask=inside, other=0.0).to(tl.float32)
        bent = gate
        if ACTIVATION == "gelu":  # x/2 · (1 + tanh u) = x · sigmoid(2u)
            bent = 1.5957691216057308 * (gate + 0.044715 * gate * gate * gate)
    tl.store(y + row * n + column, (gate * tl.sigmoid(bent) * up).to(y.dtype.element_ty), mask=inside)


class Gated(CudaCall):
    """f(gate_up, out=None) -> y [m, n] = activation(gate) · up of gate_up [m, 2n], rows of any stride; `warps` of a
    program take `block` columns.
    """

    open_layout = staticmethod(size_and_strides)

    def __init__(self, activation: Activation, block: int = 1024, warps: int = 4, pdl: bool = False) -> None:
        super().__init__()
        if activation not in get_args(Activation):
            raise ValueError(f"activation is {activation!r}: {', '.join(get_args(Activation))} are known")
        self.activation, self.block, self.warps, self.pdl = activation, block, warps, pdl

    def _prepare(self, check: bool, stream: int, out: Any, /, gate_up: Tensor) -> Prepared:
        if check:
            check_tensor("gate_up", gate_up, (None, None), FLOATS, gate_up.device)
            if gate_up.shape[1] % 2:
                raise ValueError(f"gate_up has {gate_up.shape[1]} columns: gate and up need an even number")
        m, n = gate_up.shape[0], gate_up.shape[1] // 2
        outputs = [Output("out", (m, n), gate_up.dtype)]
        allocate = allocation(outputs, gate_up.device)
        if check:
            check_outputs(out, outputs, gate_up.device)
        if not m or not n:
            return Prepared(allocate, lambda _: launch_nothing)
        blocks, pdl = triton.cdiv(n, self.block), uses_pdl(self.pdl, gate_up.device)
        sizes, constants = (n, gate_up.stride(0), blocks), (self.activation, self.block, pdl)

        def arguments(y: Tensor) -> tuple[Any, ...]:
            return (gate_up, y, *sizes, *constants)

        grid = (m * blocks,)
        return prepared(_gated, grid, stream, allocate, arguments, num_warps=self.warps, launch_pdl=pdl)
