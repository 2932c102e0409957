"""FlashAttention in Triton: runs on every NVIDIA GPU from sm_80 on, for every mask and length."""

import math
from collections.abc import Callable
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from kernels.check_args import check_qkv
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
    """Any lengths, causal or not, windows, soft caps, grouped heads, packed sequences; head_dim up to 256."""

    name = "flash_triton"
    op = "attention"
    page = "flash-triton"
    summary = "FlashAttention in Triton, sm_80 and later"
    in_a_model = ({"pdl": True}, {"pdl": False})

    def serves(self, case: AttentionCase, gpu: Gpu) -> Refusal | None:
        if gpu.sm < 80:
            return Refusal(f"device is {gpu.name}: this variant needs compute capability 8.0 or later")
        if case.dtype not in ("bf16", "fp16"):
            return Refusal(f"dtype is {case.dtype}: this variant takes bf16 and fp16")
        return _refused(case)

    def build(self, case: AttentionCase, params: dict[str, Any]) -> "Callable[..., torch.Tensor]":
        """f(q, k, v) -> o, contiguous; takes fp32 as well (in Triton's interpreter).

        Params: `block_m` queries and `block_n` keys of a tile, `warps`, `stages`, `pdl` (a dependent launch). Raises
        ValueError for an unsupported case or param. A call raises ValueError that names an argument that does not fit
        the case.
        """
        import torch

        from kernels.attention.forward_triton import attention_forward, config
        from kernels.cuda.pdl_triton import dependent
        from kernels.cuda.strided_triton import strided

        refusal = _refused(case)
        if refusal is not None:
            raise ValueError(f"case.{refusal.reason}")
        pdl = bool(params.get("pdl"))
        given = _params(case, {name: value for name, value in params.items() if name != "pdl"})
        block_m, scale = given["block_m"], 1 / math.sqrt(case.head_dim)
        score = scale if case.softcap is not None else scale * math.log2(math.e), case.softcap or 0.0
        shape = case.heads, case.heads // case.kv_heads, case.q_len, case.kv_len
        rows = _tiles(case.lengths, block_m) if case.lengths is not None else []
        tile_count = len(rows) if case.lengths is not None else -(-case.q_len // block_m)
        tables: dict[torch.device, torch.Tensor] = {}

        def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            check_qkv(case, q, k, v, q.device)
            _check_rows({"k": k, "v": v}, given["block_n"])
            o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
            if o.numel() == 0:
                return o
            if q.device not in tables:
                tables[q.device] = torch.tensor(rows, dtype=torch.int32, device=q.device)
            launch_pdl = dependent(pdl, q.device)
            attention_forward[(case.batch * case.heads * tile_count,)](
                strided(q), strided(k), strided(v), o, (tables[q.device], tile_count), shape, score,
                config(case, block_m, given["block_n"], launch_pdl),
                num_warps=given["warps"], num_stages=given["stages"], launch_pdl=launch_pdl,
            )  # fmt: skip
            return o

        return attend

    def space(self, case: AttentionCase) -> list[dict[str, Any]]:
        return [dict(zip(PARAMS, tile, strict=True)) for tile in _offered(case)]


def _refused(case: AttentionCase) -> Refusal | None:
    if case.kind == "decode":
        return Refusal("kind is decode: this variant works on 64 queries of a head, or more, at a time")
    if case.paged:
        return Refusal("paged is true: this variant reads contiguous keys and values only")
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


def _check_rows(tensors: "dict[str, torch.Tensor]", block_n: int) -> None:
    """Raises ValueError that names the tensor if the rows of a block span more elements than an int32 counts."""
    for name, given in tensors.items():
        if given.stride(1) * block_n >= 2**31:
            raise ValueError(f"{name} has rows {given.stride(1)} elements apart: {block_n} of them pass 2³¹")


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
    given = dict(zip(PARAMS, _offered(case)[0], strict=True)) | params
    for name, value in given.items():
        if name not in PARAMS:
            raise ValueError(f"flash_triton takes {', '.join(PARAMS)}, not {name}")
        least = 16 if name.startswith("block") else 1
        if not isinstance(value, int) or value < least or (name != "stages" and value & (value - 1)):
            raise ValueError(f"{name} is {value!r}: a power of two from {least} on is wanted")
    return given


def _tiles(lengths: tuple[int, ...], block_m: int) -> list[tuple[int, int, int]]:
    """Of each tile of the packed sequences: the start and length of its sequence, and the tile's first row in it."""
    begins = [0, *accumulate(lengths)]
    return [
        (begin, length, row)
        for begin, length in zip(begins, lengths, strict=False)
        for row in range(0, length, block_m)
    ]
