"""Linear layers: a matrix product and its epilogue. Imports without torch."""

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field

from kernels.ops.base import BYTES, EPSILON, MATRIX_RATE, Arguments, BaseCase, DType, Epilogue, Outputs, Weights
from kernels.quant.formats import Scales

if TYPE_CHECKING:
    import torch

    from kernels.proof.inputs import Maker


class LinearCase(BaseCase):
    """y[m, n] = epilogue(x[m, k] · w[n, k]ᵀ). For swiglu w is [2n, k], gate rows first, and y is [m, n].

    `rmsnorm_scale`, alone or before a bias or swiglu, divides the product by the root mean square of its row of x.
    With `scales` (and fp8 weights) x and w are e4m3, each a pair (values, scales) in a layout of
    `kernels.quant.scaled`. With `block32` (and fp8 weights) both are MXFP8, with `block16` (and nvfp4 weights) NVFP4,
    each an `Operand` of `kernels.quant.block_scaled`.
    """

    part = "products"
    torch_variants = ("torch_linear",)
    packs_weight = True
    constant = ("w",)

    op: Literal["linear"] = "linear"
    m: int = Field(ge=0)
    n: int = Field(gt=0)
    k: int = Field(gt=0)
    dtype: DType = "bf16"
    weights: Weights = "bf16"
    epilogue: Epilogue = "none"
    scales: Scales | None = None

    @property
    def normalises(self) -> bool:
        """Whether each row is divided by the root mean square of its x."""
        return self.epilogue.startswith("rmsnorm_scale")

    @property
    def gates(self) -> bool:
        """Whether w holds a gate and an up matrix that swiglu joins."""
        return self.epilogue.endswith("swiglu")

    @property
    def adds_bias(self) -> bool:
        """Whether the call takes a bias [n]."""
        return self.epilogue.endswith("bias")

    @property
    def scaling(self) -> str:
        """The scales of x and w in words, such as `row scales`."""
        return f"{self.scales} scales" if self.scales else "no scales"

    @property
    def weight_rows(self) -> int:
        return 2 * self.n if self.gates else self.n

    @property
    def shape_label(self) -> str:
        return f"{self.weight_rows}×{self.k} {self.epilogue}"

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.weight_rows * self.k

    @property
    def least_bytes(self) -> float:
        activation = BYTES[self.dtype]
        x = BYTES[self.weights] if self.scales else activation
        extra = self.n if self.adds_bias else self.m * self.n if self.epilogue == "residual" else 0
        return (
            self.m * self.k * x
            + self.weight_rows * self.k * BYTES[self.weights]
            + (self.m * self.n + extra) * activation
        )

    @property
    def matrix_precision(self) -> str:
        return max(self.weights, self.dtype, key=lambda name: MATRIX_RATE[name])

    def inputs(self, make: "Maker", scale: float) -> Arguments:
        arguments = {
            "x": make.normal(self.m, self.k, scale=scale),
            "w": make.normal(self.weight_rows, self.k, scale=1 / math.sqrt(self.k)),
        }
        if self.adds_bias:
            arguments["bias"] = make.normal(self.n, scale=scale)
        if self.epilogue == "residual":
            arguments["residual"] = make.normal(self.m, self.n, scale=scale)
        return arguments

    def reference(self, arguments: Arguments) -> Outputs:
        return (linear(self, **arguments),)

    def native(self, arguments: Arguments) -> Outputs:
        from kernels.quant.scaled import through_fp8

        y = linear(self, **arguments)
        return (through_fp8(y) if self.epilogue == "quantise" else y,)

    @property
    def longest_sum(self) -> int:
        return self.k

    def passed(self, arguments: Arguments) -> Arguments:
        from kernels.quant import block_scaled, scaled

        if self.scales is None:
            return arguments
        block = block_scaled.named(self.scales)
        x = arguments["x"]
        return arguments | {"x": block_scaled.operand(x, block) if block else scaled.of_x(x, self.scales)}

    def comparable(self, outputs: Outputs) -> Outputs:
        return (apply_scales(*outputs),) if self.epilogue == "quantise" and len(outputs) == 2 else outputs


class LinearArguments(NamedTuple):
    """The arguments of a call, in their order. `x` and `w` are what the variant takes of them."""

    x: Any
    w: Any
    bias: "torch.Tensor | None" = None
    residual: "torch.Tensor | None" = None
    eps: float = EPSILON


def linear(
    case: LinearCase,
    x: "torch.Tensor",
    w: "torch.Tensor",
    bias: "torch.Tensor | None" = None,
    residual: "torch.Tensor | None" = None,
    eps: float = EPSILON,
) -> "torch.Tensor":
    """y [m, n] = epilogue(x [m, k] · w [n, k]ᵀ).

    `rmsnorm_scale` divides each row by the root mean square of its x, before a bias or swiglu; the norm's own weight is
    folded into w. `quantise` is the plain product here: a variant returns it as (values, scales), and the gate
    multiplies them (`apply_scales`).
    """
    import torch

    y = x @ w.T
    if case.normalises:
        wide = x if x.dtype == torch.float64 else x.float()
        y = y * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps).to(y.dtype)
    for added in (bias, residual):
        y = y if added is None else y + added
    if case.gates:
        gate, up = y.chunk(2, dim=-1)
        y = torch.nn.functional.silu(gate) * up
    return y


def apply_scales(values: "torch.Tensor", scales: "torch.Tensor") -> "torch.Tensor":
    """values [m, n] times scales, float32: [m, 1] one a row, [m, ⌈n / 128⌉] one for each 128 columns of a row."""
    if scales.shape[1] > 1:
        scales = scales.repeat_interleave(128, dim=1)[:, : values.shape[1]]
    return values.float() * scales.float()
