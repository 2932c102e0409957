"""Gated activations. Imports without torch."""

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from kernels.ops.base import BYTES, Arguments, BaseCase, DType, Outputs

SWIGLUOAI_ALPHA, SWIGLUOAI_LIMIT = 1.702, 7.0
"""gpt-oss's constants, which its configuration cannot change in transformers."""

if TYPE_CHECKING:
    import torch

    from kernels.proof.inputs import Maker


Activation = Literal["silu", "gelu", "swigluoai"]


class GatedCase(BaseCase):
    """y[m, n] = activation(gate) · up of [m, 2n], gate first. `swigluoai` is gpt-oss's: gate · sigmoid(1.702 · gate) ·
    (up + 1), gate at most 7, up within ±7; their columns alternate.
    """

    part = "gates"
    torch_variants = ("torch_gated",)
    copies = True

    op: Literal["gated"] = "gated"
    m: int = Field(ge=0)
    n: int = Field(gt=0)
    activation: Activation = "silu"
    dtype: DType = "bf16"

    @property
    def flops(self) -> float:
        return 5.0 * self.m * self.n

    @property
    def least_bytes(self) -> float:
        return 3.0 * self.m * self.n * BYTES[self.dtype]

    def inputs(self, make: "Maker", scale: float) -> Arguments:
        return {"gate_up": make.normal(self.m, 2 * self.n, scale=scale)}

    def reference(self, arguments: Arguments) -> Outputs:
        return (apply_gate(self, **arguments),)


def apply_gate(case: GatedCase, gate_up: "torch.Tensor") -> "torch.Tensor":
    """y [m, n] = activation(gate) · up of gate_up [m, 2n]; gelu is the tanh form, as language models use it."""
    import torch.nn.functional as F

    if case.activation == "swigluoai":
        return swigluoai(gate_up)
    gate, up = gate_up.chunk(2, dim=-1)
    return (F.silu(gate) if case.activation == "silu" else F.gelu(gate, approximate="tanh")) * up


def swigluoai(gate_up: "torch.Tensor") -> "torch.Tensor":
    """gpt-oss's clamped SwiGLU [..., n] of gate_up [..., 2n], whose columns are a gate and its up in turn."""
    gate, up = gate_up[..., ::2].clamp(max=SWIGLUOAI_LIMIT), gate_up[..., 1::2].clamp(-SWIGLUOAI_LIMIT, SWIGLUOAI_LIMIT)
    return (up + 1) * (gate * (gate * SWIGLUOAI_ALPHA).sigmoid())
