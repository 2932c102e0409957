"""RMSNorm. Imports without torch."""

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from kernels.ops.base import BYTES, EPSILON, Arguments, BaseCase, DType, Outputs

if TYPE_CHECKING:
    import torch

    from kernels.proof.inputs import Maker


class RmsNormCase(BaseCase):
    """y[m, n] = x / rms(x) · w[n], of x + residual when `residual`; `quantise`: fp8 values, float32 scale [m, 1]."""

    part = "norms"
    torch_variants = ("torch_rmsnorm",)
    copies = True

    op: Literal["rmsnorm"] = "rmsnorm"
    m: int = Field(ge=0)
    n: int = Field(gt=0)
    residual: bool = False
    dtype: DType = "bf16"
    quantise: Literal["fp8"] | None = None

    @property
    def flops(self) -> float:
        return 4.0 * self.m * self.n

    @property
    def least_bytes(self) -> float:
        read = self.m * self.n * (3 if self.residual else 1) + self.n
        written = self.m * (self.n + 4) if self.quantise else self.m * self.n * BYTES[self.dtype]
        return read * BYTES[self.dtype] + written

    def inputs(self, make: "Maker", scale: float) -> Arguments:
        arguments = {"x": make.normal(self.m, self.n, scale=scale), "w": make.normal(self.n)}
        return arguments | ({"residual": make.normal(self.m, self.n, scale=scale)} if self.residual else {})

    def reference(self, arguments: Arguments) -> Outputs:
        """For a case that quantises, y itself in place of values and scale."""
        return rmsnorm(**arguments)

    def native(self, arguments: Arguments) -> Outputs:
        from kernels.quant.scaled import through_fp8

        y, *total = rmsnorm(**arguments)
        return (through_fp8(y) if self.quantise else y, *total)

    @property
    def longest_sum(self) -> int:
        return self.n

    def comparable(self, outputs: Outputs) -> Outputs:
        """Quantised values times their scales, then the other outputs."""
        import torch

        from kernels.ops.oracle import Failed

        if not self.quantise:
            return outputs
        values, scale, *rest = outputs
        if values.dtype != torch.float8_e4m3fn:
            raise Failed(f"Its values are {values.dtype} where the op quantises to float8_e4m3fn.")
        return (values.float() * scale, *rest)


def rmsnorm(
    x: "torch.Tensor", w: "torch.Tensor", residual: "torch.Tensor | None" = None, eps: float = EPSILON
) -> Outputs:
    """(y,) or, with a residual, (y, x + residual), each [m, n]; half precisions take the mean in float32."""
    import torch

    total = x if residual is None else x + residual
    wide = total if total.dtype == torch.float64 else total.float()
    y = (wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)).to(x.dtype) * w
    return (y,) if residual is None else (y, total)
