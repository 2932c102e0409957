"""The decode step between two products as one kernel: a cluster of blocks per KV head, keys split among them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernels.attention.step_hopper_tiles import SOURCE, page_size_of, sizes
from kernels.attention.torch_step import refusal
from kernels.check_args import C_TYPES, batch_refusal, check_served
from kernels.cuda.nvrtc import Build
from kernels.hardware import Gpu
from kernels.ops import StepAttentionCase
from kernels.registry import Refusal, Variant, register

SPLITS = (1, 2, 4, 8)
HEAD_DIMS = (64, 128, 256)
MAX_GROUP = 8
MAX_CHUNK = {64: 320, 128: 160, 256: 80}
"""Keys that a block holds at once, by head_dim: 80 KB of keys and values, an eighth of 1,280 tokens of 128."""
MAX_KEYS = 16_384
"""The most keys. With more, one cluster of blocks a head leaves most of the GPU idle."""
PARAMS = {"splits", "parts", "pdl", "chunk"}


@register
class StepHopper(Variant):
    """Rotation, append and attention of one step. With `pdl` it is launched while the QKV product still runs.

    With `pdl` it reads older slots of the caches, the tables, the page table and the position before it waits for the
    previous kernel. The kernels that write these must have ended before the previous kernel began: the LM head of one
    step before the first kernel of the next one. A step in a CUDA graph of its own ensures this, since a replay begins
    when the replay before it has ended. Otherwise threads of one block may see different positions, and never end.
    """

    name = "step_hopper"
    kernels = ("step_attention",)
    op = "step_attention"
    page = "step-hopper"
    summary = "rotation, append and attention of one step in one kernel"
    in_a_model = ({"pdl": True},)

    def serves(self, case: StepAttentionCase, gpu: Gpu) -> Refusal | None:
        if gpu.sm != 90:
            return Refusal(f"device is {gpu.name}: clusters of this kernel are built for Hopper (sm_90)")
        if case.dtype not in C_TYPES:
            return Refusal(f"dtype is {case.dtype}: this variant takes bf16 and fp16")
        if case.head_dim not in HEAD_DIMS:
            return Refusal(f"head_dim is {case.head_dim}: this variant takes {', '.join(map(str, HEAD_DIMS))}")
        if case.heads > MAX_GROUP * case.kv_heads:
            return Refusal(f"heads is {case.heads} on {case.kv_heads} kv_heads: at most {MAX_GROUP} on each")
        if case.seen > MAX_KEYS:
            return Refusal(f"kv_len is {case.kv_len}: this variant splits a head among 8 blocks, for {MAX_KEYS} keys")
        return batch_refusal(case.batch) or refusal(case)

    def space(self, case: StepAttentionCase) -> list[dict[str, Any]]:
        """Fewer splits if batch and heads alone fill the GPU; separate query heads if they do not."""
        best = next((split for split in SPLITS if split * case.kv_heads * max(1, case.batch) >= 64), SPLITS[-1])
        at = SPLITS.index(best)
        splits = (best, *SPLITS[max(0, at - 1) : at])
        return [{"splits": split, "parts": _parts(case, split)} for split in splits]

    def for_model(self, case: StepAttentionCase) -> Sequence[Mapping[str, Any]]:
        """The neighbours in the pass decide how many blocks are best: also query heads all separate or all together."""
        best = self.space(case)[0]["splits"]
        max_split = _divisors(case)[-1]
        cuts = ((best, _parts(case, best)), (best, max_split), (max(1, best // 2), max_split), (best, 1))
        return [{"pdl": True, "splits": splits, "parts": parts} for splits, parts in dict.fromkeys(cuts)]

    def build(self, case: StepAttentionCase, params: dict[str, Any]) -> Callable[..., Any]:
        """f(qkv, cos, sin, k_cache, v_cache, position, page_table=None, q_norm=None, k_norm=None, sinks=None)
        -> o [batch, heads · head_dim].

        cos and sin [capacity, head_dim]; position [1] or [batch] int64; page_table [batch, max_pages] int32 of paged
        caches; q_norm and k_norm [head_dim] of a case with `norm_eps`; sinks [heads] of a case with sinks.
        A position outside the cache gives NaN, and so does an entry of the table that is no page.
        `splits` blocks share the keys of one head, `parts` clusters of them its query heads; a block holds `chunk` keys
        at once (0: as many as fit). `pdl` is a dependent launch: see the class. Raises ValueError that names the
        argument.
        """
        from kernels.attention.step_hopper_call import StepCall
        from kernels.cuda import nvrtc

        check_served(self, case)
        build = _build(self, case, params)
        given = dict(build.defines)
        size, grid = given["SHARED_BYTES"], (given["SPLITS"], case.kv_heads * given["PARTS"], case.batch)
        kernel = nvrtc.load(build, "step_attention", size)
        return StepCall(case, kernel, grid, size, bool(params.get("pdl")))

    def cuda_builds(self, case: StepAttentionCase, params: dict[str, Any], gpu: Gpu) -> list[Build]:
        return [_build(self, case, params)]


MAX_BLOCKS = 64
"""The most blocks for which the query heads of a KV head are divided among clusters."""


def _divisors(case: StepAttentionCase) -> list[int]:
    group = case.heads // case.kv_heads
    return [size for size in range(1, group + 1) if group % size == 0]


def _parts(case: StepAttentionCase, splits: int) -> int:
    """The most clusters for a KV head's query heads that keep within MAX_BLOCKS."""
    alone = splits * case.kv_heads * max(1, case.batch)
    return max(divisor for divisor in _divisors(case) if divisor == 1 or divisor * alone <= MAX_BLOCKS)


def _build(variant: Variant, case: StepAttentionCase, params: dict[str, Any]) -> Build:
    """The source with its macros. Raises ValueError that names a wrong param."""
    splits = params.get("splits", variant.space(case)[0]["splits"])
    parts = params.get("parts", _parts(case, splits))
    if set(params) - PARAMS or splits not in SPLITS or parts not in _divisors(case):
        names = ", ".join(sorted(PARAMS))
        raise ValueError(f"params: step_hopper takes {names}, splits of {SPLITS}, parts that divide, not {params}")
    group, keys_of_split = case.heads // case.kv_heads // parts, -(-case.seen // splits)
    chunk = min(params.get("chunk") or MAX_CHUNK[case.head_dim], MAX_CHUNK[case.head_dim], -(-keys_of_split // 32) * 32)
    defines = {"HEAD_DIM": case.head_dim, "GROUP": group, "PARTS": parts, "SPLITS": splits, "CHUNK": chunk}
    defines |= {"ELEMENT": C_TYPES[case.dtype], "PAGE_SIZE": page_size_of(case)}
    defines |= {"HEAD_NORMS": int(case.norm_eps is not None), "SINKS": int(bool(case.sinks))}
    return Build.of(SOURCE, defines | sizes(defines))
