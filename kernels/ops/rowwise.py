"""Ops row by row: RMSNorm, rotary embedding, gated activation. Imports without torch."""

from typing import Literal

from pydantic import Field

from kernels.ops.base import BYTES, BaseCase, DType


class RmsNormCase(BaseCase):
    """y[m, n] = x / rms(x) · w[n], with x + residual first when `residual`.

    `quantise` gives y as values in fp8 (e4m3) and a float32 scale [m, 1]: y = values · scale, the largest value at 448.
    """

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


class RopeCase(BaseCase):
    """Rotary embedding of q and k of one step.

    `append` also writes k and v into a cache [batch, capacity, kv_heads, head_dim], or with `paged` into pages
    [pages, page_size, kv_heads, head_dim] of `page_size` tokens (None: 16).
    """

    op: Literal["rope"] = "rope"
    batch: int = Field(ge=0)
    q_len: int = Field(ge=0)
    heads: int = Field(gt=0)
    kv_heads: int = Field(gt=0)
    head_dim: int = Field(gt=0)
    append: bool = False
    paged: bool = False
    dtype: DType = "bf16"
    page_size: int | None = Field(default=None, gt=0)

    @property
    def flops(self) -> float:
        return 6.0 * self.batch * self.q_len * (self.heads + self.kv_heads) * self.head_dim

    @property
    def least_bytes(self) -> float:
        heads = self.heads + self.kv_heads + (self.kv_heads if self.append else 0)
        return 2.0 * self.batch * self.q_len * heads * self.head_dim * BYTES[self.dtype]


class GatedCase(BaseCase):
    """y[m, n] = activation(gate[m, n]) · up[m, n], gate and up packed as [m, 2n], gate first."""

    op: Literal["gated"] = "gated"
    m: int = Field(ge=0)
    n: int = Field(gt=0)
    activation: Literal["silu", "gelu"] = "silu"
    dtype: DType = "bf16"

    @property
    def flops(self) -> float:
        return 5.0 * self.m * self.n

    @property
    def least_bytes(self) -> float:
        return 3.0 * self.m * self.n * BYTES[self.dtype]
