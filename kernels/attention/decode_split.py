"""Decode attention split along the keys: contiguous, paged and fp8 caches, unequal lengths. See decode_triton.py."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernels.check_args import batch_refusal, gpu_refusal, merge_params
from kernels.hardware import Gpu
from kernels.ops import AttentionCase
from kernels.registry import Refusal, Variant, register

if TYPE_CHECKING:
    import torch

MAX_ROWS = 64
"""Queries times grouped heads that one program holds."""

SAFE_ROWS = 32
"""Queries times grouped heads that one program holds with an fp8 cache or a head_dim up to 32. With more rows Triton
3.6 pads to 64 and uses `wgmma` in place of `mma`; with tiles of values 32 columns wide, results on an H200 were wrong.
"""


@register
class DecodeSplit(Variant):
    """A few queries over a long cache; all SMs share the keys."""

    name = "decode_split"
    kernels = ("decode",)
    op = "attention"
    page = "decode-attention"
    summary = "decode attention split along the keys, contiguous, paged and fp8 caches"
    device_lengths = True

    def serves(self, case: AttentionCase, gpu: Gpu) -> Refusal | None:
        if case.dtype not in ("bf16", "fp16"):
            return Refusal(f"dtype is {case.dtype}: this variant takes bf16 and fp16")
        return refusal_of(case) or gpu_refusal(gpu, 89 if case.kv_dtype == "fp8" else 80)

    def build(self, case: AttentionCase, params: dict[str, Any]) -> "Callable[..., torch.Tensor]":
        """f(q, k, v, lengths=None, page_table=None, k_scale=None, v_scale=None, position=None, sinks=None,
        check=False, out=None) -> o.

        q [batch, q_len, heads, head_dim]. k and v [batch, capacity, kv_heads, head_dim], or paged [pages, page_size,
        kv_heads, head_dim] with page_table [batch, max_pages] int32. lengths [batch] or [1], int32 or int64, are the
        keys of each sequence, read on the device (None: all). position may be given instead: lengths - 1. An fp8 cache
        takes k_scale and v_scale [kv_heads] float32: k ≈ values · scale. A case with sinks takes sinks [heads]. Invalid
        lengths and pages make their sequence NaN. With `check` the host reads them first and raises ValueError. A wrong
        shape, dtype, device or stride raises ValueError that names the argument.

        Takes `splits` (0: as many as fill the GPU with `per_sm` programs on each SM), `per_sm`, `block` keys of a tile,
        `warps`, `stages`. Takes fp32 in Triton's interpreter. It can be captured in a CUDA graph: see `CacheAttention`.
        """
        from kernels.attention.decode_call import DecodeCall

        refusal = refusal_of(case)
        if refusal is not None:
            raise ValueError(f"case.{refusal.reason}")
        return DecodeCall(case, merge_params(self.name, params, self.space(case)[0]))

    def space(self, case: AttentionCase) -> list[dict[str, Any]]:
        names = ("per_sm", "block", "warps", "stages")
        return [{"splits": 0} | dict(zip(names, tile, strict=True)) for tile in _tiles(case)]


def _tiles(case: AttentionCase) -> tuple[tuple[int, int, int, int], ...]:
    """The tiles to time, the fastest on an H200 first: programs on an SM, keys of a tile, warps, stages.

    `per_sm` programs fit on an SM at once; more would run in a second wave. Page tables take one more stage.
    """
    if case.q_len * (case.heads // case.kv_heads) > 16:
        return ((1, 32, 4, 2), (1, 64, 4, 2)) if case.head_dim <= 128 else ((1, 32, 8, 2),)
    if case.head_dim > 128:
        return (1, 64, 4, 3), (2, 32, 4, 3)
    if case.kv_dtype == "fp8":
        if case.head_dim <= 64:
            return (4, 64, 2, 3), (8, 64, 1, 3)
        return (4, 64, 2, 3), (10, 32, 1, 3)
    if case.paged:
        return ((4, 64, 2, 4), (8, 32, 1, 4)) if case.head_dim <= 64 else ((2, 64, 2, 4), (2, 64, 4, 4))
    if case.head_dim <= 64:
        return (2, 128, 4, 3), (4, 64, 2, 3), (2, 64, 4, 4)
    return (1, 64, 4, 4), (1, 128, 8, 3), (3, 32, 2, 3)


def refusal_of(case: AttentionCase) -> Refusal | None:
    """The reason why no GPU can serve a cache's case; None if one can."""
    if case.heads % case.kv_heads:
        return Refusal(f"heads is {case.heads}, not a multiple of kv_heads {case.kv_heads}")
    rows = case.q_len * case.heads // case.kv_heads
    max_rows = SAFE_ROWS if case.kv_dtype == "fp8" or case.head_dim <= 32 else MAX_ROWS
    if rows > max_rows:
        return Refusal(
            f"q_len is {case.q_len}: this variant takes {max_rows} queries times grouped heads here, not {rows}"
        )
    if case.head_dim > 256:
        return Refusal(f"head_dim is {case.head_dim}: this variant takes at most 256")
    if case.kv_dtype not in (case.dtype, "fp8"):
        return Refusal(f"kv_dtype is {case.kv_dtype} and dtype {case.dtype}: this variant takes equal ones, or fp8")
    if case.lengths is not None:
        return Refusal(f"{len(case.lengths)} sequences are packed: this variant reads each from a cache of its own")
    if case.window is not None and case.window < 1:
        return Refusal(f"window is {case.window}: a query sees at least itself")
    if case.softcap is not None and not case.softcap > 0:
        return Refusal(f"softcap is {case.softcap:g}: it must be above 0")
    return batch_refusal(case.batch)
