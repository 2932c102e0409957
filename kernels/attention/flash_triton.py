"""FlashAttention in Triton: runs on every NVIDIA GPU from sm_80 on, for every mask and length."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernels.check_args import merge_params
from kernels.hardware import Gpu
from kernels.ops import AttentionCase
from kernels.registry import Refusal, Variant, register

if TYPE_CHECKING:
    import torch

PARAMS = ("block_m", "block_n", "warps", "stages")

TILES: tuple[tuple[int, tuple[tuple[int, int, int, int], ...]], ...] = (
    (64, ((128, 64, 4, 3), (128, 128, 8, 3), (64, 64, 4, 2))),
    (128, ((128, 64, 8, 2), (128, 128, 8, 2), (64, 64, 4, 2))),
    (256, ((64, 32, 8, 2), (128, 64, 8, 2))),
)
"""The tiles to time up to a head_dim, as `PARAMS`; the first fits the 99 KB of the smallest GPUs."""

ALL_KEYS = {64: (64, 128, 4, 1), 128: (64, 128, 8, 1)}
"""A further tile up to a head_dim, for cases whose keys all fit into it: the loop over keys then has one iteration."""


@register
class FlashTriton(Variant):
    """Any lengths, causal or not, windows, soft caps, sinks, grouped heads, packed sequences; head_dim up to 256."""

    name = "flash_triton"
    kernels = ("attention_forward",)
    op = "attention"
    page = "flash-triton"
    summary = "FlashAttention in Triton, sm_80 and later"
    in_a_model = ({"pdl": True}, {"pdl": False})

    def serves(self, case: AttentionCase, gpu: Gpu) -> Refusal | None:
        if gpu.sm < 80:
            return Refusal(f"device is {gpu.name}: this variant needs compute capability 8.0 or later")
        if case.dtype not in ("bf16", "fp16"):
            return Refusal(f"dtype is {case.dtype}: this variant takes bf16 and fp16")
        return _refusal(case)

    def build(self, case: AttentionCase, params: dict[str, Any]) -> "Callable[..., torch.Tensor]":
        """f(q, k, v, sinks=None, out=None) -> o, contiguous; takes fp32 as well (in Triton's interpreter). A case with
        sinks takes `sinks` [heads].

        Params: `block_m` queries and `block_n` keys of a tile, `warps`, `stages`, `pdl` (a dependent launch). Raises
        ValueError for an unsupported case or param. A call raises ValueError that names an argument that does not fit
        the case.
        """
        from kernels.attention.flash_triton_call import FlashTritonCall

        refusal = _refusal(case)
        if refusal is not None:
            raise ValueError(f"case.{refusal.reason}")
        tuning = _params(case, {name: value for name, value in params.items() if name != "pdl"})
        return FlashTritonCall(case, tuning, bool(params.get("pdl")))

    def space(self, case: AttentionCase) -> list[dict[str, Any]]:
        return [dict(zip(PARAMS, tile, strict=True)) for tile in _offered(case)]


def _refusal(case: AttentionCase) -> Refusal | None:
    if case.kind == "decode":
        return Refusal("kind is decode: this variant works on 64 queries of a head, or more, at a time")
    if case.paged:
        return Refusal("keys and values are paged: this variant reads contiguous ones only")
    if case.kv_dtype != case.dtype:
        return Refusal(f"kv_dtype is {case.kv_dtype} and dtype {case.dtype}: this variant wants them equal")
    if case.heads % case.kv_heads:
        return Refusal(f"heads is {case.heads}, not a multiple of kv_heads {case.kv_heads}")
    if case.head_dim > TILES[-1][0]:
        return Refusal(f"head_dim is {case.head_dim}: this variant takes at most {TILES[-1][0]}")
    if case.window is not None and case.window < 1:
        return Refusal(f"window is {case.window}: a query sees at least itself")
    if case.softcap is not None and case.softcap <= 0:
        return Refusal(f"softcap is {case.softcap:g}: this variant takes positive ones")
    return None


def _offered(case: AttentionCase) -> tuple[tuple[int, int, int, int], ...]:
    tiles = next(tiles for head_dim, tiles in TILES if case.head_dim <= head_dim)
    short = all_keys(case)
    return tiles if short is None else (*tiles, short)


def all_keys(case: AttentionCase) -> tuple[int, int, int, int] | None:
    """The tile, as `PARAMS`, that holds all of the case's keys; None if no tile does."""
    tile = next((tile for head_dim, tile in ALL_KEYS.items() if case.head_dim <= head_dim), None)
    return tile if tile is not None and case.kv_len <= tile[1] else None


def _params(case: AttentionCase, params: dict[str, Any]) -> dict[str, int]:
    """The params with defaults for those missing. Raises ValueError for an unknown name or a bad value."""
    given = merge_params("flash_triton", params, dict(zip(PARAMS, _offered(case)[0], strict=True)))
    for name, value in given.items():
        minimum = 16 if name.startswith("block") else 1
        if not isinstance(value, int) or value < minimum or (name != "stages" and value & (value - 1)):
            raise ValueError(f"{name} is {value!r}: a power of two from {minimum} on is wanted")
    return given
