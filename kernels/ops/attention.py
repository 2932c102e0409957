"""Attention: of a prompt, of a cache, and of one decode step between two products. Imports without torch."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from kernels.ops.base import BYTES, BaseCase, DType


class AttentionCase(BaseCase):
    """softmax(q·kᵀ/√head_dim)·v; q [batch, q_len, heads, head_dim], k and v [batch, kv_len, kv_heads, head_dim].

    Causal aligns the last query with the last key. `window` counts the keys a query sees, itself included; without
    causality it sees as many on its other side. `lengths` packs sequences of these lengths one after the other
    (varlen): batch is 1, q_len and kv_len are their sum, and a query sees its own sequence alone. Raises ValueError
    where they are not.

    A cache: `kv_lengths` are the keys that each sequence has in its kv_len slots (None: all); `paged` pages hold
    `page_size` tokens (None: 16); an fp8 cache has a float32 scale for each KV head, of k and of v.
    """

    op: Literal["attention"] = "attention"
    kind: Literal["prefill", "decode"]
    head_dim: int = Field(gt=0)
    heads: int = Field(gt=0)
    kv_heads: int = Field(gt=0)
    batch: int = Field(ge=0)
    q_len: int = Field(ge=0)
    kv_len: int = Field(ge=0)
    causal: bool = True
    dtype: DType = "bf16"
    kv_dtype: Literal["fp32", "bf16", "fp16", "fp8"] = "bf16"
    window: int | None = None
    softcap: float | None = None
    paged: bool = False
    lengths: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    kv_lengths: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    page_size: int | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _packed(self) -> Self:
        if self.lengths is not None and (self.batch, self.q_len, self.kv_len) != (1, *[sum(self.lengths)] * 2):
            raise ValueError(f"lengths add up to {sum(self.lengths)}: batch must be 1, and q_len and kv_len that sum")
        found = self.kv_lengths
        if found is not None and (len(found) != self.batch or max(found, default=0) > self.kv_len):
            raise ValueError(f"kv_lengths has {len(found)} lengths: it needs {self.batch}, none above {self.kv_len}")
        return self

    @property
    def cached(self) -> bool:
        """Whether k and v lie in a cache that takes more than its tensors to read."""
        return self.paged or self.kv_lengths is not None or self.kv_dtype == "fp8"

    @property
    def sequences(self) -> list[tuple[int, int]]:
        """Queries and keys of each sequence."""
        if self.lengths is not None:
            return [(each, each) for each in self.lengths]
        return [(self.q_len, each) for each in self.kv_lengths or [self.kv_len] * self.batch]

    @property
    def flops(self) -> float:
        return sum(_attention_flops(self, *each) for each in self.sequences)

    @property
    def least_bytes(self) -> float:
        q_and_o = 2 * self.batch * self.q_len * self.heads * self.head_dim * BYTES[self.dtype]
        keys = sum(kv_len for _, kv_len in self.sequences)
        return q_and_o + 2 * keys * self.kv_heads * self.head_dim * BYTES[self.kv_dtype]


def _attention_flops(case: AttentionCase, q_len: int, kv_len: int) -> float:
    full = 4.0 * case.heads * q_len * kv_len * case.head_dim
    return full / 2 if case.causal and q_len == kv_len > 1 else full


class StepAttentionCase(BaseCase):
    """One decode step between the QKV product and the output product: rotation, append to the cache, attention.

    qkv is [batch, (heads + 2 · kv_heads) · head_dim], the caches [batch, capacity, kv_heads, head_dim]; `kv_len` is
    what a query sees, its own token included, and `window` bounds it.
    """

    op: Literal["step_attention"] = "step_attention"
    batch: int = Field(ge=0)
    heads: int = Field(gt=0)
    kv_heads: int = Field(gt=0)
    head_dim: int = Field(gt=0)
    kv_len: int = Field(gt=0)
    window: int | None = None
    dtype: DType = "bf16"

    @property
    def seen(self) -> int:
        """Keys that the query attends to."""
        return min(self.kv_len, self.window or self.kv_len)

    @property
    def flops(self) -> float:
        return self.batch * self.head_dim * (4.0 * self.heads * self.seen + 6.0 * (self.heads + self.kv_heads))

    @property
    def least_bytes(self) -> float:
        rows = 2 * self.heads + 2 * self.kv_heads + 2 * self.kv_heads * self.seen
        return self.batch * self.head_dim * rows * BYTES[self.dtype]
