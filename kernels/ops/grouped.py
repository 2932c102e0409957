"""Products of a mixture of experts. Imports without torch."""

import math
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from kernels.ops.base import BYTES, Arguments, BaseCase, DType, Epilogue, Outputs, Weights
from kernels.ops.gated import swigluoai
from kernels.ops.linear import LinearCase, linear

if TYPE_CHECKING:
    from kernels.proof.inputs import Maker


class GroupedCase(BaseCase):
    """y[rows, n] = epilogue(x[rows, k] · w[e]ᵀ) of a mixture of experts: rows sorted by expert e, w [experts, n, k].

    `offs` [experts] int32 is the end of each expert's rows. For swiglu w is [experts, 2n, k], gate rows first. With
    `scales` of `row` x and w are e4m3, each a pair (values, scales) with a float32 scale for each row: of x [rows, 1],
    of w [experts, n, 1].

    `bias` adds one [experts, n]. `swigluoai` adds one [experts, 2n] and activates as gpt-oss does, whose rows of gate
    and up alternate. A case that `gathers` takes x [tokens, k] and `token` [rows] int64, the row of x of each row of y.
    Weights are in the precision `weights`, None: in that of the case.
    """

    part = "products"
    torch_variants = ("torch_grouped_loop",)
    packs_weight = True
    constant = ("w", "offs")

    op: Literal["grouped"] = "grouped"
    rows: int = Field(ge=0)
    experts: int = Field(gt=0)
    n: int = Field(gt=0)
    k: int = Field(gt=0)
    dtype: DType = "bf16"
    epilogue: Literal["none", "bias", "swiglu", "swigluoai"] = "none"
    scales: Literal["row"] | None = None
    weights: Weights | None = None
    gathers: Literal[True] | None = None

    @property
    def gates(self) -> bool:
        """Whether w holds gates and ups."""
        return self.epilogue in ("swiglu", "swigluoai")

    @property
    def adds_bias(self) -> bool:
        """Whether the call takes a bias."""
        return self.epilogue in ("bias", "swigluoai")

    @property
    def weight_rows(self) -> int:
        return 2 * self.n if self.gates else self.n

    @property
    def flops(self) -> float:
        return 2.0 * self.rows * self.weight_rows * self.k

    @property
    def least_bytes(self) -> float:
        """Counts the weights of one expert: the case does not say how many experts have rows."""
        x, w = BYTES["fp8" if self.scales else self.dtype], BYTES[self.weights or self.matrix_precision]
        return (self.rows * x + self.weight_rows * w) * self.k + self.rows * self.n * BYTES[self.dtype]

    @property
    def matrix_precision(self) -> str:
        return self.dtype if self.scales is None else "fp8"

    def inputs(self, make: "Maker", scale: float) -> Arguments:
        """Assigns rows to experts at random with unequal probabilities; of many experts, some get none."""
        import torch

        chances = make.normal(self.experts).float().mul(0.5).softmax(dim=0)
        chosen = torch.searchsorted(chances.cumsum(0), torch.sort(make.uniform(self.rows)).values)
        counts = torch.bincount(chosen.clamp_max(self.experts - 1), minlength=self.experts)
        tokens = max(1, self.rows // 2) if self.gathers else self.rows
        more = {"bias": make.normal(self.experts, self.weight_rows, scale=scale)} if self.adds_bias else {}
        if self.gathers:
            more["token"] = make.uniform(self.rows).mul(tokens).long().clamp_max(tokens - 1)
        return {
            "x": make.normal(tokens, self.k, scale=scale),
            "w": make.normal(self.experts, self.weight_rows, self.k, scale=1 / math.sqrt(self.k)),
            "offs": counts.cumsum(0).to(torch.int32),
            **more,
        }

    def reference(self, arguments: Arguments) -> Outputs:
        """y [rows, n]: each expert's rows of x, up to its end, times its w, and the epilogue."""
        import torch

        x, w, offs = (arguments[name] for name in ("x", "w", "offs"))
        x = x[arguments["token"]] if self.gathers else x
        own: Epilogue = "swiglu" if self.epilogue == "swiglu" else "none"
        expert, starts = LinearCase(m=self.rows, n=self.n, k=self.k, epilogue=own), [0, *offs.tolist()]
        biases = arguments["bias"] if self.adds_bias else [None] * self.experts
        each = zip(starts, starts[1:], w, biases, strict=False)
        y = torch.cat([linear(expert, x[a:b], weight, bias) for a, b, weight, bias in each])
        return (swigluoai(y) if self.epilogue == "swigluoai" else y,)

    @property
    def longest_sum(self) -> int:
        return self.k

    def passed(self, arguments: Arguments) -> Arguments:
        from kernels.quant import scaled

        if self.scales is None:
            return arguments
        return arguments | {"x": scaled.of_x(arguments["x"], self.scales)}
