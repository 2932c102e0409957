"""Matrix products: linear layers, experts, the LM head. Imports without torch."""

from typing import Literal

from pydantic import Field

from kernels.ops.base import BYTES, BaseCase, DType, Epilogue, Sampling, Scales, Weights


class LinearCase(BaseCase):
    """y[m, n] = epilogue(x[m, k] · w[n, k]ᵀ). For swiglu w is [2n, k], gate rows first, and y is [m, n].

    `rmsnorm_scale`, alone or before a bias or swiglu, divides the product by the root mean square of its row of x.
    With `scales` (and fp8 weights) x and w are e4m3, each a pair (values, scales) in a layout of
    `kernels.quant.scaled`.
    """

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
    def weight_rows(self) -> int:
        return 2 * self.n if self.gates else self.n

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.weight_rows * self.k

    @property
    def least_bytes(self) -> float:
        activation = BYTES[self.dtype]
        x = BYTES["fp8"] if self.scales else activation
        extra = self.n if self.adds_bias else self.m * self.n if self.epilogue == "residual" else 0
        return (
            self.m * self.k * x
            + self.weight_rows * self.k * BYTES[self.weights]
            + (self.m * self.n + extra) * activation
        )


class GroupedCase(BaseCase):
    """y[rows, n] = epilogue(x[rows, k] · w[e]ᵀ) of a mixture of experts: rows sorted by expert e, w [experts, n, k].

    `ends` [experts] int32 says where the rows of each expert end. For swiglu w is [experts, 2n, k], gate rows first.
    """

    op: Literal["grouped"] = "grouped"
    rows: int = Field(ge=0)
    experts: int = Field(gt=0)
    n: int = Field(gt=0)
    k: int = Field(gt=0)
    dtype: DType = "bf16"
    epilogue: Literal["none", "swiglu"] = "none"

    @property
    def weight_rows(self) -> int:
        return 2 * self.n if self.epilogue == "swiglu" else self.n

    @property
    def flops(self) -> float:
        return 2.0 * self.rows * self.weight_rows * self.k

    @property
    def least_bytes(self) -> float:
        """Counts one expert's weights: how many have rows is not part of the case."""
        return (self.rows * (self.k + self.n) + self.weight_rows * self.k) * BYTES[self.dtype]


class LmHeadCase(BaseCase):
    """Next token of h[m, k] · w[vocab, k]ᵀ without writing the logits."""

    op: Literal["lm_head"] = "lm_head"
    m: int = Field(ge=0)
    vocab: int = Field(gt=0)
    k: int = Field(gt=0)
    sampling: Sampling = "argmax"
    dtype: DType = "bf16"
    weights: Weights = "bf16"

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.vocab * self.k

    @property
    def least_bytes(self) -> float:
        return self.vocab * self.k * BYTES[self.weights] + self.m * self.k * BYTES[self.dtype] + 4 * self.m
