"""Decode attention in CUDA C++ for Hopper: keys and values are loaded directly into registers. See decode_hopper.cu."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernels.attention.decode_hopper_tiles import STEP, build_of, page_of, split_count
from kernels.attention.decode_split import refusal_of
from kernels.check_args import C_TYPES, check_served, merge_params
from kernels.cuda.nvrtc import Build
from kernels.hardware import Gpu
from kernels.ops import AttentionCase
from kernels.registry import Refusal, Variant, register

if TYPE_CHECKING:
    import torch

HEAD_DIMS, MAX_GROUP = (64, 128), 8

PARAMS = ("warps", "steps")
SPACE: dict[tuple[int, bool], tuple[tuple[int, int], ...]] = {
    (64, False): ((16, 2), (8, 4)),
    (64, True): ((16, 2),),
    (128, False): ((12, 1), (8, 2)),
    (128, True): ((16, 1),),
}
"""The sets of params to time by head_dim and whether the cache is fp8, as `PARAMS`."""


@register
class DecodeHopper(Variant):
    """One query over a long cache. All SMs share the keys; each warp loads the keys that it multiplies."""

    name = "decode_hopper"
    kernels = ("decode_hopper",)
    op = "attention"
    page = "decode-hopper"
    summary = "decode attention for Hopper (sm_90a), contiguous, paged and fp8 caches"
    device_lengths = True

    def serves(self, case: AttentionCase, gpu: Gpu) -> Refusal | None:
        if gpu.sm != 90:
            return Refusal(f"device is {gpu.name}: this variant is written for Hopper (sm_90a)")
        if case.dtype not in C_TYPES:
            return Refusal(f"dtype is {case.dtype}: this variant takes bf16 and fp16")
        if case.q_len != 1:
            return Refusal(f"q_len is {case.q_len}: this variant takes one query")
        if case.head_dim not in HEAD_DIMS:
            return Refusal(f"head_dim is {case.head_dim}: this variant takes 64 and 128")
        if case.heads > MAX_GROUP * case.kv_heads:
            return Refusal(f"heads is {case.heads} on {case.kv_heads} kv_heads: at most {MAX_GROUP} on each")
        if case.window is not None:
            return Refusal(f"window is {case.window}: this variant reads all keys")
        if case.sinks:
            return Refusal("sinks are given: this variant has none")
        if case.softcap is not None:
            return Refusal(f"softcap is {case.softcap:g}: this variant has no soft cap")
        if case.paged and (case.page_size or STEP) % STEP:
            return Refusal(f"page_size is {case.page_size}: this variant takes multiples of {STEP}")
        return refusal_of(case)

    def build(self, case: AttentionCase, params: dict[str, Any]) -> "Callable[..., torch.Tensor]":
        """`decode_split`'s function for one query; k, v aligned to 16 bytes, pages of a multiple of 16 keys. Params:
        `warps` of a block, and `steps` of 16 keys that a warp has in flight.
        """
        from kernels.attention.decode_hopper_call import HopperCall

        check_served(self, case)
        tuning = merge_params(self.name, params, self.space(case)[0])
        if tuning["warps"] not in range(1, 17) or tuning["steps"] not in range(1, 9):
            raise ValueError(f"params: warps from 1 to 16 and steps from 1 to 8 are possible, not {tuning}")
        return HopperCall(case, tuning)

    def cuda_builds(self, case: AttentionCase, params: dict[str, Any], gpu: Gpu) -> list[Build]:
        """One build for calls with lengths or a position, and one for calls without."""
        tuning = merge_params(self.name, params, self.space(case)[0])
        splits = split_count(case, tuning, gpu.sms)
        return [build_of(case, tuning, splits, counted, page_of(case)) for counted in (True, False)]

    def space(self, case: AttentionCase) -> list[dict[str, Any]]:
        shapes = SPACE[case.head_dim, case.kv_dtype == "fp8"]
        return [dict(zip(PARAMS, shape, strict=True)) for shape in shapes]
