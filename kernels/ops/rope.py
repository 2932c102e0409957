"""Rotary embedding, with or without the append to a KV cache. Imports without torch."""

from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field

from kernels.ops.base import BYTES, Arguments, BaseCase, DType, Outputs
from kernels.ops.paged_kv import PAGE_SIZE, SPARE_SLOTS, scale_kv, shuffle_pages, slots
from kernels.quant.formats import E4M3_MAX

if TYPE_CHECKING:
    import torch

    from kernels.proof.inputs import Maker


class RopeCase(BaseCase):
    """Rotary embedding of q and k of one step.

    `append` also writes k and v into a cache [batch, capacity, kv_heads, head_dim], or with `paged` into pages
    [pages, page_size, kv_heads, head_dim] of `page_size` tokens (None: 16). `kv_dtype` is the cache's (None: `dtype`);
    an fp8 cache has a float32 scale for each KV head, one of k and one of v, and holds the quotients, saturated.
    """

    part = "rotations"
    torch_variants = ("torch_rope",)
    copies = True

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
    kv_dtype: Literal["fp8"] | None = None

    @property
    def flops(self) -> float:
        return 6.0 * self.batch * self.q_len * (self.heads + self.kv_heads) * self.head_dim

    @property
    def least_bytes(self) -> float:
        heads = self.heads + self.kv_heads + (self.kv_heads if self.append else 0)
        cached = (heads - self.heads) * BYTES[self.kv_dtype or self.dtype]
        written = self.heads * BYTES[self.dtype] + cached
        return self.batch * self.q_len * (heads * BYTES[self.dtype] + written) * self.head_dim

    def inputs(self, make: "Maker", scale: float) -> Arguments:
        import torch

        if (self.paged or self.kv_dtype) and not self.append:
            return super().inputs(make, scale)
        q = make.normal(self.batch, self.q_len, self.heads, self.head_dim, scale=scale)
        k = make.normal(self.batch, self.q_len, self.kv_heads, self.head_dim, scale=scale)
        both = angles(17 + torch.arange(self.q_len, device=make.device, dtype=torch.float32), self.head_dim)
        both = both.expand(self.batch, -1, -1)
        arguments = {"q": q, "k": k, "cos": both.cos().to(make.dtype), "sin": both.sin().to(make.dtype)}
        return arguments | self._cache(make, scale, k) if self.append else arguments

    def _cache(self, make: "Maker", scale: float, k: "torch.Tensor") -> Arguments:
        """Further arguments of an append: filled caches, positions; scales too small for the largest keys of fp8."""
        import torch

        page_size = self.page_size or PAGE_SIZE
        per_sequence = (self.q_len + SPARE_SLOTS) // page_size + 1
        shape, table = (self.batch, per_sequence * page_size), {}
        if self.paged:
            page_table, pages = shuffle_pages(self.batch, per_sequence, make.generator)
            shape, table = (pages, page_size), {"page_table": page_table}
        caches = {name: make.normal(*shape, self.kv_heads, self.head_dim) for name in ("k_cache", "v_cache")}
        position = make.integers(0, per_sequence * page_size - self.q_len + 1, self.batch)
        v = make.normal(self.batch, self.q_len, self.kv_heads, self.head_dim, scale=scale)
        scales: Arguments = {}
        if self.kv_dtype is not None:
            caches = {name: cache.to(torch.float8_e4m3fn) for name, cache in caches.items()}
            factors = torch.linspace(0.5, 1.0, self.kv_heads, device=make.device) / E4M3_MAX
            scales = {
                name: factors * (rows.abs().amax().float() if rows.numel() else 1)
                for name, rows in (("k_scale", k), ("v_scale", v))
            }
        return {"v": v, **caches, "position": position, **table, **scales}

    def reference(self, arguments: Arguments) -> Outputs:
        """(q, k), or with an append (q, k, v): the rotated q and the new contents of its cache slots."""
        q, *rows = rope(*(arguments[name] for name in ("q", "k", "cos", "sin")))
        rows += [arguments["v"]] if self.append else []
        if self.kv_dtype is not None:
            rows = [scale_kv(each, arguments[name]) for each, name in zip(rows, ("k_scale", "v_scale"), strict=True)]
        return (q, *rows)

    def native(self, arguments: Arguments) -> Outputs:
        import torch

        q, *rows = self.reference(arguments)
        return (q, *(row.to(torch.float8_e4m3fn).float() if self.kv_dtype else row for row in rows))

    def written_slots(self, arguments: Arguments) -> "tuple[torch.Tensor, torch.Tensor] | None":
        if not self.append:
            return None
        page_size = arguments["k_cache"].shape[1]
        return slots(arguments["position"], self.q_len, arguments.get("page_table"), page_size)


class AppendArguments(NamedTuple):
    """The arguments of a call with `append`, in their order: q [batch, q_len, heads, head_dim], k and v with kv_heads,
    cos and sin [batch, q_len, head_dim], the caches as in `RopeCase`, position [batch] or [1] for all, the slot of each
    sequence's first token, of a paged cache page_table [batch, max_pages] int32, and of an fp8 cache k_scale and
    v_scale [kv_heads] float32.
    """

    q: "torch.Tensor"
    k: "torch.Tensor"
    v: "torch.Tensor"
    cos: "torch.Tensor"
    sin: "torch.Tensor"
    k_cache: "torch.Tensor"
    v_cache: "torch.Tensor"
    position: "torch.Tensor"
    page_table: "torch.Tensor | None" = None
    k_scale: "torch.Tensor | None" = None
    v_scale: "torch.Tensor | None" = None


def rope(q: "torch.Tensor", k: "torch.Tensor", cos: "torch.Tensor", sin: "torch.Tensor") -> Outputs:
    """q and k [batch, q_len, heads, head_dim] rotated by halves; cos and sin [batch, q_len, head_dim]."""
    cos, sin = cos[:, :, None], sin[:, :, None]
    return tuple(tensor * cos + rotate_half(tensor) * sin for tensor in (q, k))


def rotate_half(x: "torch.Tensor") -> "torch.Tensor":
    """x [any, head_dim] with its halves exchanged and the new first half negated: the factor of the sine."""
    import torch

    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


def angles(positions: "torch.Tensor", head_dim: int) -> "torch.Tensor":
    """The angles [positions, head_dim] of a rotary embedding with base 10,000; both halves are equal."""
    import torch

    rates = 10_000.0 ** (-torch.arange(0, head_dim, 2, device=positions.device, dtype=torch.float32) / head_dim)
    half = positions[:, None] * rates
    return torch.cat([half, half], dim=-1)
