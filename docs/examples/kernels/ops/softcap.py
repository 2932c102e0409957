"""The soft cap of logits. Imports without torch."""

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from kernels.ops.base import BYTES, Arguments, BaseCase, DType, Outputs

if TYPE_CHECKING:
    from kernels.proof.inputs import Maker


class SoftcapCase(BaseCase):
    """y[m, n] = cap · tanh(x[m, n] / cap)."""

    part = "caps"
    torch_variants = ("torch_softcap",)
    copies = True

    op: Literal["softcap"] = "softcap"
    m: int = Field(ge=0)
    n: int = Field(gt=0)
    cap: float = Field(default=30.0, gt=0)
    dtype: DType = "bf16"

    @property
    def flops(self) -> float:
        return 3.0 * self.m * self.n

    @property
    def least_bytes(self) -> float:
        return 2.0 * self.m * self.n * BYTES[self.dtype]

    def inputs(self, make: "Maker", scale: float) -> Arguments:
        return {"x": make.normal(self.m, self.n, scale=scale)}

    def reference(self, arguments: Arguments) -> Outputs:
        import torch

        return (self.cap * torch.tanh(arguments["x"] / self.cap),)
