"""One decode step between the QKV product and the output product. Imports without torch."""

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from kernels.ops.base import BYTES, Arguments, BaseCase, DType, Outputs
from kernels.ops.paged_kv import PAGE_SIZE, SPARE_SLOTS, shuffle_pages, slots
from kernels.ops.rope import angles, rotate_half

if TYPE_CHECKING:
    from torch import Tensor

    from kernels.proof.inputs import Maker


class StepAttentionCase(BaseCase):
    """Rotation, append to the cache and attention of one decode step.

    qkv is [batch, (heads + 2 · kv_heads) · head_dim], the caches [batch, capacity, kv_heads, head_dim], or with `paged`
    [pages, page_size, kv_heads, head_dim] of `page_size` tokens (None: 16). `kv_len` is the number of keys that a query
    sees, its own included; `window` bounds it. With `norm_eps` each head of q and of k is normed before its rotation.
    With `sinks` [heads] e^sink joins each sum of exponentials.
    """

    part = "attention"
    torch_variants = ("torch_step_attention",)

    op: Literal["step_attention"] = "step_attention"
    batch: int = Field(ge=0)
    heads: int = Field(gt=0)
    kv_heads: int = Field(gt=0)
    head_dim: int = Field(gt=0)
    kv_len: int = Field(gt=0)
    window: int | None = None
    paged: bool = False
    dtype: DType = "bf16"
    page_size: int | None = Field(default=None, gt=0)
    norm_eps: float | None = Field(default=None, ge=0)
    sinks: Literal[True] | None = None

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

    def inputs(self, make: "Maker", scale: float) -> Arguments:
        """Each sequence ends at its own slot, the first at kv_len − 1."""
        import torch

        capacity, shape, table = self.kv_len + SPARE_SLOTS, (self.batch, self.kv_len + SPARE_SLOTS), {}
        if self.paged:
            page_size = self.page_size or PAGE_SIZE
            sequence_pages = -(-capacity // page_size)
            page_table, pages = shuffle_pages(self.batch, sequence_pages, make.generator)
            capacity, shape, table = sequence_pages * page_size, (pages, page_size), {"page_table": page_table}
        qkv = make.normal(self.batch, (self.heads + 2 * self.kv_heads) * self.head_dim, scale=scale)
        both = angles(torch.arange(capacity, device=make.device, dtype=torch.float32), self.head_dim)
        caches = {
            name: make.normal(*shape, self.kv_heads, self.head_dim, scale=size)
            for name, size in (("k_cache", 1.0), ("v_cache", scale))
        }
        position = (self.kv_len - 1 - 3 * torch.arange(self.batch, device=make.device)).clamp_min(0)
        tables = {"cos": both.cos().to(make.dtype), "sin": both.sin().to(make.dtype)}
        if self.norm_eps is not None:
            table |= {name: 1 + make.normal(self.head_dim, scale=0.1) for name in ("q_norm", "k_norm")}
        if self.sinks:
            table["sinks"] = make.normal(self.heads, scale=2.0)
        return {"qkv": qkv} | tables | caches | {"position": position} | table

    def reference(self, arguments: Arguments) -> Outputs:
        """(o, k, v) with the new slots of the caches [batch, 1, kv_heads, head_dim]."""
        given = arguments | {name: arguments[name].clone() for name in ("k_cache", "v_cache")}
        o = step_attention(self, **given)
        at = self.written_slots(given)
        return o, *(given[name][at] for name in ("k_cache", "v_cache"))

    @property
    def longest_sum(self) -> int:
        return max(self.head_dim, self.kv_len)

    def written_slots(self, arguments: Arguments) -> "tuple[Tensor, Tensor]":
        tokens = arguments["k_cache"].shape[1]
        return slots(arguments["position"].expand(self.batch), 1, arguments.get("page_table"), tokens)


def append_step(
    case: StepAttentionCase,
    qkv: "Tensor",
    cos: "Tensor",
    sin: "Tensor",
    k_cache: "Tensor",
    v_cache: "Tensor",
    position: "Tensor",
    page_table: "Tensor | None" = None,
    **norms: "Tensor",
) -> "tuple[Tensor, Tensor, Tensor, Tensor]":
    """Rotated q, position [batch], keys and values [batch, slots, kv_heads, head_dim] (pages: copies); writes k, v."""
    import torch.nn.functional as F

    heads, kv_heads, head_dim = case.heads, case.kv_heads, case.head_dim
    q, k, v = qkv.view(case.batch, -1, head_dim).split([heads, kv_heads, kv_heads], dim=1)
    if case.norm_eps is not None:
        weights = (q, norms["q_norm"]), (k, norms["k_norm"])
        q, k = (F.rms_norm(x, (head_dim,), weight, case.norm_eps) for x, weight in weights)
    cosine, sine = (table[position][:, None] for table in (cos, sin))
    q, k = (tensor * cosine + rotate_half(tensor) * sine for tensor in (q, k))
    at = position.expand(case.batch)
    first, second = slots(at, 1, page_table, k_cache.shape[1])
    k_cache[first, second] = k[:, None].to(k_cache.dtype)
    v_cache[first, second] = v[:, None]
    if page_table is not None:
        k_cache, v_cache = (cache[page_table.long()].flatten(1, 2) for cache in (k_cache, v_cache))
    return q, at, k_cache, v_cache


def step_attention(
    case: StepAttentionCase, qkv: "Tensor", *args: "Tensor", sinks: "Tensor | None" = None, **named: "Tensor"
) -> "Tensor":
    """o [batch, heads · head_dim]; writes the rotated k, and v, into slot position[b] of the caches.

    Takes the arguments of `append_step`; paged caches page_table [batch, max_pages] int32, a case with `norm_eps`
    q_norm and k_norm [head_dim], one with sinks these [heads].
    """
    import torch

    heads, kv_heads, head_dim = case.heads, case.kv_heads, case.head_dim
    q, at, keys, values = append_step(case, qkv, *args, **named)
    wide = torch.promote_types(qkv.dtype, torch.float32)
    grouped = q.view(case.batch, kv_heads, heads // kv_heads, head_dim).to(wide)
    scores = torch.einsum("bhgd,blhd->bhgl", grouped, keys.to(wide)) * head_dim**-0.5
    slot = torch.arange(keys.shape[1], device=qkv.device)
    seen = slot <= at[:, None]
    if case.window is not None:
        seen = seen & (slot > at[:, None] - case.window)
    scores = scores.masked_fill(~seen[:, None, None], float("-inf"))
    if sinks is not None:
        own = sinks.to(wide).view(1, kv_heads, -1, 1).expand(*scores.shape[:3], 1)
        scores = torch.cat((scores, own), dim=-1)
    values = torch.where(seen[:, :, None, None], values, values.new_zeros(())).to(wide)
    probabilities = torch.softmax(scores, dim=-1)[..., : keys.shape[1]]
    out = torch.einsum("bhgl,blhd->bhgd", probabilities, values)
    return out.to(qkv.dtype).reshape(case.batch, heads * head_dim)
