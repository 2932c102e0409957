"""`flash_blackwell`: FlashAttention by hand for sm_100a; compiles and is emulated, never ran on the chip."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.attention.flash_tiles import FlashPlan, common_constants, refusal_of
from kernels.check_args import check_served
from kernels.cuda.nvrtc import Build
from kernels.cuda.occupancy import MAX_SHARED_BYTES
from kernels.hardware import Gpu
from kernels.ops import AttentionCase
from kernels.registry import Refusal, Variant, check_params, register

if TYPE_CHECKING:
    import torch

SOURCE = Path(__file__).with_name("flash_blackwell.cu")
SM, ARCHITECTURE = 100, "sm_100a"
ROWS, KEYS, THREADS = 128, 128, 384
"""Queries of a half of a tile, keys of a block, threads of a block of the grid."""

OUTPUT_ROWS = 32
"""Queries of o that one copy stores: those of a warp."""

SLOTS = {64: 8, 128: 4}
"""Blocks of keys or of values in flight, by head_dim: as many as find room, and 8 at most."""

KINDS = {"bf16": "kBf16", "fp16": "kF16"}
"""MatrixKind of descriptors.cuh by dtype."""


@register
class FlashBlackwell(Variant):
    """Causal or not, windows, grouped heads, any lengths; head_dim 64 and 128. One warpgroup computes exponentials
    while the tensor cores multiply for the other, as in FlashAttention-4.
    """

    name = "flash_blackwell"
    kernels = ("flash_blackwell",)
    op = "attention"
    page = "flash-blackwell"
    summary = "FlashAttention in tensor memory (sm_100a); compiles, emulated, never run on the chip"

    def serves(self, case: AttentionCase, gpu: Gpu) -> Refusal | None:
        if gpu.sm != SM:
            return Refusal(f"device is {gpu.name}: this variant is built for sm_100a only")
        return refusal_of(case)

    def build(self, case: AttentionCase, params: dict[str, Any]) -> "Callable[..., torch.Tensor]":
        """f(q, k, v) -> o, contiguous. Param: `slots`, blocks of keys or of values in flight. Raises ValueError, in a
        call for what TMA cannot read: addresses and strides must be multiples of 16 bytes.
        """
        from kernels.attention.flash_call import FlashCall

        check_served(self, case, SM)
        return FlashCall(case, plan(case, params))

    def cuda_builds(self, case: AttentionCase, params: dict[str, Any], gpu: Gpu) -> list[Build]:
        return [plan(case, params).build]

    def space(self, case: AttentionCase) -> list[dict[str, Any]]:
        return [{"slots": SLOTS[case.head_dim]}]


def shared_bytes(head_dim: int, slots: int) -> int:
    """Shared memory of a block: queries and the ring, eight warps' panels of o, barriers, the address of TMEM."""
    rows = 2 * ROWS + slots * KEYS
    return rows * head_dim * 2 + 8 * OUTPUT_ROWS * 128 + 16 * slots + 10 * 8 + 8


def plan(case: AttentionCase, params: dict[str, Any]) -> FlashPlan:
    """The launch of a case that is served; missing params are the first of `space`. Raises ValueError for a bad one."""
    given = {"slots": SLOTS[case.head_dim]} | params
    check_params(FlashBlackwell.name, params, ("slots",))
    slots = given["slots"]
    if slots not in range(2, 17):
        raise ValueError(f"slots is {slots!r}, not one of {list(range(2, 17))}")
    size = shared_bytes(case.head_dim, slots)
    if size > MAX_SHARED_BYTES:
        raise ValueError(f"slots is {slots}: {size} bytes of shared memory are too many")
    return FlashPlan(
        SOURCE, ARCHITECTURE, THREADS, rows=2 * ROWS, q_rows=ROWS, o_rows=OUTPUT_ROWS, keys=KEYS, shared_bytes=size,
        constants=common_constants(case, KEYS, slots, size) | {"KIND": KINDS[case.dtype]},
    )  # fmt: skip
