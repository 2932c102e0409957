"""Attention over a prompt or over a KV cache. Imports without torch."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from kernels.ops.base import BLOCK_ELEMENTS, BYTES, Arguments, BaseCase, DType, Outputs
from kernels.ops.paged_kv import PAGE_SIZE, keys_of, shuffle_pages

if TYPE_CHECKING:
    import torch

    from kernels.proof.inputs import Maker


class AttentionCase(BaseCase):
    """softmax(q·kᵀ/√head_dim)·v; q [batch, q_len, heads, head_dim], k and v [batch, kv_len, kv_heads, head_dim].

    Causal aligns the last query with the last key. `window` is the number of keys that a query sees, including its own;
    without causality it sees as many on its other side. With `sinks` [heads] e^sink joins each sum of exponentials, and
    adds no value (gpt-oss). `lengths` packs sequences of these lengths one after the other
    (varlen): batch is 1, q_len and kv_len are their sum, and a query sees only its own sequence. Raises ValueError if
    the sums differ.

    A cache: `kv_lengths` are the used slots of each sequence's kv_len (None: all); `paged` pages hold `page_size`
    tokens (None: 16); an fp8 cache has a float32 scale for each KV head, one of k and one of v.
    """

    part = "attention"
    torch_variants = ("sdpa_flash", "sdpa_math")

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
    sinks: Literal[True] | None = None
    paged: bool = False
    lengths: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    kv_lengths: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    page_size: int | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _packed(self) -> Self:
        if self.lengths is not None and (self.batch, self.q_len, self.kv_len) != (1, *[sum(self.lengths)] * 2):
            raise ValueError(f"lengths add up to {sum(self.lengths)}: batch must be 1, and q_len and kv_len that sum")
        lengths = self.kv_lengths
        if lengths is not None and (len(lengths) != self.batch or max(lengths, default=0) > self.kv_len):
            raise ValueError(f"kv_lengths has {len(lengths)} lengths: it needs {self.batch}, none above {self.kv_len}")
        return self

    @property
    def cached(self) -> bool:
        """Whether reading k and v takes more than their two tensors: lengths, a page table or scales."""
        return self.paged or self.kv_lengths is not None or self.kv_dtype == "fp8"

    @property
    def sequences(self) -> list[tuple[int, int]]:
        """Queries and keys of each sequence."""
        if self.lengths is not None:
            return [(length, length) for length in self.lengths]
        return [(self.q_len, length) for length in self.kv_lengths or [self.kv_len] * self.batch]

    @property
    def flops(self) -> float:
        return sum(_attention_flops(self, *sequence) for sequence in self.sequences)

    @property
    def least_bytes(self) -> float:
        q_and_o = 2 * self.batch * self.q_len * self.heads * self.head_dim * BYTES[self.dtype]
        keys = sum(kv_len for _, kv_len in self.sequences)
        return q_and_o + 2 * keys * self.kv_heads * self.head_dim * BYTES[self.kv_dtype]

    @property
    def unavoidable_flops(self) -> float:
        """Less than `flops` if a window or causality excludes pairs of query and key."""
        return 4.0 * self.heads * self.head_dim * sum(_visible_pairs(self, *sequence) for sequence in self.sequences)

    @property
    def unavoidable_bytes(self) -> float:
        """Less than `least_bytes` if a window hides keys."""
        if self.window is None or self.lengths is not None:
            return self.least_bytes
        hidden = sum(max(0, kv_len - (self.q_len - 1 + self.window)) for _, kv_len in self.sequences)
        return self.least_bytes - 2 * hidden * self.kv_heads * self.head_dim * BYTES[self.kv_dtype]

    def inputs(self, make: "Maker", scale: float) -> Arguments:
        from kernels.dtypes import DTYPES

        q = make.normal(self.batch, self.q_len, self.heads, self.head_dim, scale=scale)
        sinks = {"sinks": make.normal(self.heads, scale=2.0)} if self.sinks else {}
        make.dtype = DTYPES["fp32" if self.kv_dtype == "fp8" else self.kv_dtype]
        k = make.normal(self.batch, self.kv_len, self.kv_heads, self.head_dim)
        v = make.normal(self.batch, self.kv_len, self.kv_heads, self.head_dim, scale=scale)
        return {"q": q, "k": k, "v": v} | (_cache(self, make, k, v) if self.cached else {}) | sinks

    def reference(self, arguments: Arguments) -> Outputs:
        if self.cached:
            return (_each_sequence(self, arguments, lambda plain, one: attention(plain, **one)),)
        return (attention(self, **arguments),)

    def native(self, arguments: Arguments) -> Outputs:
        if self.cached:
            return (_each_sequence(self, arguments, lambda plain, one: plain.native(one)[0]),)
        if self.softcap is None and not self.sinks and self.batch and self.q_len and self.kv_len:
            return (_sdpa(self, **arguments),)
        return self.reference(arguments)

    @property
    def longest_sum(self) -> int:
        return max(self.head_dim, self.kv_len)


def _attention_flops(case: AttentionCase, q_len: int, kv_len: int) -> float:
    full = 4.0 * case.heads * q_len * kv_len * case.head_dim
    return full / 2 if case.causal and q_len == kv_len > 1 else full


def _visible_pairs(case: AttentionCase, q_len: int, kv_len: int) -> float:
    """How many (query, key) pairs of one sequence are visible."""
    if case.window is None:
        hidden = min(q_len, kv_len)
        return q_len * kv_len - (hidden * (hidden - 1) / 2 if case.causal else 0)
    if not case.causal:
        return q_len * min(case.window, kv_len)
    first = kv_len - q_len + 1
    return float(sum(max(0, min(case.window, first + query)) for query in range(q_len)))


def attention(
    case: AttentionCase, q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor", sinks: "torch.Tensor | None" = None
) -> "torch.Tensor":
    """o [batch, q_len, heads, head_dim], query block by query block; causal aligns the last query with the last key."""
    import torch

    group = case.heads // case.kv_heads
    k, v = (tensor.to(q.dtype).repeat_interleave(group, dim=2).transpose(1, 2) for tensor in (k, v))
    q = q.transpose(1, 2)
    rows = max(1, BLOCK_ELEMENTS // max(1, case.batch * case.heads * case.kv_len))
    out = torch.empty_like(q)
    for start in range(0, case.q_len, rows):
        block = slice(start, min(start + rows, case.q_len))
        scores = q[:, :, block] @ k.transpose(-1, -2) / math.sqrt(case.head_dim)
        if case.softcap is not None:
            scores = case.softcap * torch.tanh(scores / case.softcap)
        scores = scores.masked_fill(~visible(case, block, q.device), -math.inf)
        if sinks is not None:
            scores = torch.cat((scores, sinks[:, None, None].expand(*scores.shape[:3], 1)), dim=-1)
        probabilities = torch.softmax(scores, dim=-1)[..., : case.kv_len]
        out[:, :, block] = torch.nan_to_num(probabilities) @ v
    return out.transpose(1, 2).contiguous()


def visible(case: AttentionCase, block: slice, device: "torch.device") -> "torch.Tensor":
    """Which keys each query of the block sees, [queries, kv_len] bool."""
    import torch

    query = torch.arange(block.start, block.stop, device=device)[:, None] + (case.kv_len - case.q_len)
    key = torch.arange(case.kv_len, device=device)[None, :]
    seen = torch.ones(block.stop - block.start, case.kv_len, dtype=torch.bool, device=device)
    if case.causal:
        seen &= key <= query
    if case.window is not None:
        seen &= (query - key).abs() < case.window
    if case.lengths is not None:
        sequence = torch.repeat_interleave(torch.tensor(case.lengths, device=device))
        seen &= sequence[block][:, None] == sequence[None, :]
    return seen


def _sdpa(case: AttentionCase, q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor") -> "torch.Tensor":
    from torch.nn.functional import scaled_dot_product_attention

    free = case.window is None and case.lengths is None
    square = case.causal and free and case.q_len == case.kv_len
    plain = free and (not case.causal or case.q_len == 1)
    mask = None if square or plain else visible(case, slice(0, case.q_len), q.device)
    q, k, v = (tensor.to(q.dtype).transpose(1, 2) for tensor in (q, k, v))
    o = scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=square, enable_gqa=case.heads != case.kv_heads)
    return o.transpose(1, 2)


def _each_sequence(
    case: AttentionCase, arguments: Arguments, attend: "Callable[[AttentionCase, Arguments], torch.Tensor]"
) -> "torch.Tensor":
    """o of a case that reads a cache: `attend` of each sequence, its keys and values gathered, multiplied by their
    scales in float32 (float64 beside such a q) and rounded to q's dtype.
    """
    import torch

    q, scales = arguments["q"], (arguments.get("k_scale"), arguments.get("v_scale"))
    rows = []
    for sequence, (_, length) in enumerate(case.sequences):
        taken = {name: arguments[name] for name in ("sinks",) if name in arguments}
        taken["q"] = q[sequence : sequence + 1]
        for name, scale in zip(("k", "v"), scales, strict=True):
            stored = keys_of(arguments[name], arguments.get("page_table"), sequence, length)
            wide = stored.to(torch.float64 if q.dtype == torch.float64 else torch.float32)
            taken[name] = (wide if scale is None else wide * scale[:, None]).to(q.dtype)
        plain = {"batch": 1, "kv_len": length, "kv_lengths": None, "paged": False, "kv_dtype": case.dtype}
        rows.append(attend(case.model_copy(update=plain), taken))
    return torch.cat(rows) if rows else torch.empty_like(q)


def _cache(case: AttentionCase, make: "Maker", k: "torch.Tensor", v: "torch.Tensor") -> Arguments:
    """k and v as the cache stores them, with arguments to read them; slots and pages without keys are NaN."""
    import torch

    arguments, page_size = {"k": k, "v": v}, case.page_size or PAGE_SIZE
    for name in ("k", "v") if case.kv_dtype == "fp8" else ():
        arguments[f"{name}_scale"] = (
            arguments[name].abs().amax(dim=(0, 1, 3)) / 448 if k.numel() else k.new_ones(case.kv_heads)
        )
        arguments[name] = (arguments[name] / arguments[f"{name}_scale"][:, None]).to(torch.float8_e4m3fn)
    if case.kv_lengths is not None:
        arguments["lengths"] = torch.tensor(case.kv_lengths, dtype=torch.int32, device=k.device)
    per_sequence = -(-case.kv_len // page_size)
    table, pages = shuffle_pages(case.batch, per_sequence, make.generator)
    for name in ("k", "v"):
        slots = arguments[name]
        if case.paged:
            slots = slots.new_empty(case.batch, per_sequence * page_size, *k.shape[2:])
        slots[:, : case.kv_len] = arguments[name]
        rows = slots.view(torch.uint8) if case.kv_dtype == "fp8" else slots
        for row, (_, length) in zip(rows, case.sequences, strict=True):
            row[length:] = 0x7F if case.kv_dtype == "fp8" else math.nan
        arguments[name] = slots
        if case.paged:
            spread = slots.new_empty(pages, page_size, *k.shape[2:])
            spread.view(torch.uint8).fill_(0x7F)
            spread[table.flatten().long()] = slots.unflatten(1, (per_sequence, page_size)).flatten(0, 1)
            arguments[name] = spread
    for row, (_, length) in zip(table, case.sequences, strict=True):
        row[-(-length // page_size) :] = -1
    return arguments | ({"page_table": table} if case.paged else {})
