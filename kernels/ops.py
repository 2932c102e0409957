"""The operations a model is made of: their shapes, FLOPs and least bytes. Imports without torch.

A *case* is one operation at one shape. `flops` counts a multiply-add as two; `least_bytes` counts every input read
once and every output written once. Formulas: `docs/architecture.md`, "Words and formulas".
"""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

DType = Literal["fp32", "bf16", "fp16"]
Weights = Literal["fp32", "bf16", "fp16", "int8", "fp8", "nvfp4", "int4"]
Sampling = Literal["argmax", "top_k_p"]
Epilogue = Literal[
    "none",
    "bias",
    "residual",
    "swiglu",
    "rmsnorm_scale",
    "rmsnorm_scale_bias",
    "rmsnorm_scale_swiglu",
    "quantise",
]

Scales = Literal["tensor", "row", "block"]

BYTES: dict[str, float] = {
    "fp32": 4,
    "bf16": 2,
    "fp16": 2,
    "int8": 1,
    "fp8": 1,
    "nvfp4": 0.5 + 1 / 16,  # e2m1 with an e4m3 scale per 16
    "int4": 0.5 + 2 / 128,  # with a 16-bit scale per group of 128
}
"""Bytes per element, scales included."""


class _Case(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    @property
    def key(self) -> str:
        """The case as one short string, equal for equal cases."""
        return " ".join(f"{name}={value}" for name, value in self.model_dump().items() if value is not None)


class LinearCase(_Case):
    """y[m, n] = epilogue(x[m, k] · w[n, k]ᵀ). For swiglu w is [2n, k], gate rows first, and y is [m, n].

    `rmsnorm_scale`, alone or before a bias or swiglu, divides the product by the root mean square of its row of x.
    With `scales` (and fp8 weights) x and w are e4m3, each a pair (values, scales) as `kernels.scaled` lays them out.
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


class GroupedCase(_Case):
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


class AttentionCase(_Case):
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


class StepAttentionCase(_Case):
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


class RmsNormCase(_Case):
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


class RopeCase(_Case):
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


class GatedCase(_Case):
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


class LmHeadCase(_Case):
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


class ModelCase(_Case):
    """A whole model generating `tokens` from `prompt` tokens. `model` is a catalogue name or a digest.

    FLOPs and bytes need the configuration, so they are given: `parameters` that a token multiplies and
    `bytes_per_token` that a decode step must read.
    """

    op: Literal["model"] = "model"
    model: str
    weights: Weights = "bf16"
    batch: int = Field(ge=1)
    prompt: int = Field(ge=1)
    tokens: int = Field(ge=1)
    parameters: int = 0
    bytes_per_token: float = 0

    @property
    def flops(self) -> float:
        return 2.0 * self.parameters * self.batch * (self.prompt + self.tokens - 1)

    @property
    def least_bytes(self) -> float:
        return self.bytes_per_token * self.tokens


Case = Annotated[
    LinearCase
    | GroupedCase
    | AttentionCase
    | StepAttentionCase
    | RmsNormCase
    | RopeCase
    | GatedCase
    | LmHeadCase
    | ModelCase,
    Field(discriminator="op"),
]
case_from: TypeAdapter[Case] = TypeAdapter(Case)
"""`case_from.validate_python({...})` gives the case a document names."""
