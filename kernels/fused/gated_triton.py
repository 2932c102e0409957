"""SwiGLU and GeGLU in Triton: elementwise over the columns of each row."""

import torch
import triton
import triton.language as tl

from kernels.check_args import check_tensor
from kernels.cuda.pdl_triton import dependent, pdl_prologue


@triton.jit
def _gated(gate_up, y, n, step, blocks, GELU: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr):
    pdl_prologue(PDL)
    program = tl.program_id(0)
    row = (program // blocks).to(tl.int64)
    column = program % blocks * BLOCK + tl.arange(0, BLOCK)
    inside = column < n
    gate = tl.load(gate_up + row * step + column, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * step + n + column, mask=inside, other=0.0).to(tl.float32)
    bent = gate
    if GELU:  # x/2 · (1 + tanh u) = x · sigmoid(2u)
        bent = 1.5957691216057308 * (gate + 0.044715 * gate * gate * gate)
    tl.store(y + row * n + column, (gate * tl.sigmoid(bent) * up).to(y.dtype.element_ty), mask=inside)


def gated(gate_up: torch.Tensor, activation: str, block: int = 1024, warps: int = 4, pdl: bool = False) -> torch.Tensor:
    """y [m, n] = activation(gate) · up of gate_up [m, 2n], gate first; `silu`, or `gelu` in its tanh form.

    The rows of gate_up may have any stride. A program of `warps` warps takes `block` columns. Raises ValueError that
    names the argument.
    """
    check_tensor("gate_up", gate_up, (None, None), (torch.bfloat16, torch.float16, torch.float32), gate_up.device)
    m, width = gate_up.shape
    if width % 2:
        raise ValueError(f"gate_up has {width} columns: gate and up need an even number")
    if activation not in ("silu", "gelu"):
        raise ValueError(f"activation is {activation!r}: silu and gelu are known")
    n = width // 2
    y = torch.empty((m, n), dtype=gate_up.dtype, device=gate_up.device)
    if m and n:
        blocks, launch_pdl = triton.cdiv(n, block), dependent(pdl, gate_up.device)
        _gated[(m * blocks,)](
            gate_up,
            y,
            n,
            gate_up.stride(0),
            blocks,
            GELU=activation == "gelu",
            BLOCK=block,
            PDL=launch_pdl,
            num_warps=warps,
            launch_pdl=launch_pdl,
        )
    return y
