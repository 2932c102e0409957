"""FlashAttention in CUDA C++ for Hopper: TMA, warpgroup products, exponentials overlapped with products."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.attention.flash_tiles import FlashPlan, common_constants, refusal_of
from kernels.check_args import check_served, merge_params
from kernels.cuda.nvrtc import ARCHITECTURE, Build
from kernels.cuda.occupancy import MAX_SHARED_BYTES
from kernels.hardware import Gpu
from kernels.ops import AttentionCase
from kernels.registry import Refusal, Variant, register

if TYPE_CHECKING:
    import torch

SOURCE = Path(__file__).with_suffix(".cu")

PARAMS = ("consumers", "keys", "slots")
SHAPES: dict[int, tuple[tuple[int, int, int], ...]] = {64: ((3, 128, 8), (2, 128, 8)), 128: ((2, 128, 5),)}
"""The params to time for each head_dim, as `PARAMS`."""


@register
class FlashHopper(Variant):
    """Causal or not, windows, grouped heads, any lengths; head_dim 64 and 128. Products of one warpgroup run while
    others compute exponentials, rescaled lazily: Shah et al., FlashAttention-3 (2024).
    """

    name = "flash_hopper"
    kernels = ("flash_hopper",)
    op = "attention"
    page = "flash-hopper"
    summary = "FlashAttention in CUDA C++ for Hopper (sm_90a)"

    def serves(self, case: AttentionCase, gpu: Gpu) -> Refusal | None:
        if gpu.sm != 90:
            return Refusal(f"device is {gpu.name}: this variant is written for Hopper (sm_90a)")
        return refusal_of(case)

    def build(self, case: AttentionCase, params: dict[str, Any]) -> "Callable[..., torch.Tensor]":
        """f(q, k, v) -> o, contiguous.

        Params: `consumers`, warpgroups of 64 queries each (2 or 3); `keys` of a block; `slots`, blocks of keys or of
        values in flight. Raises ValueError for an unsupported case or param. A call raises ValueError that names an
        argument that does not fit the case, or that TMA cannot read: addresses and strides must be multiples of 16
        bytes.
        """
        from kernels.attention.flash_call import FlashCall

        check_served(self, case)
        return FlashCall(case, _plan(case, _params(case, params)))

    def cuda_builds(self, case: AttentionCase, params: dict[str, Any], gpu: Gpu) -> list[Build]:
        return [_plan(case, _params(case, params)).build]

    def space(self, case: AttentionCase) -> list[dict[str, Any]]:
        return [dict(zip(PARAMS, shape, strict=True)) for shape in SHAPES[case.head_dim]]


def constants(case: AttentionCase, params: dict[str, int]) -> dict[str, Any]:
    """The macros of the source for the case."""
    common = common_constants(case, params["keys"], params["slots"], shared_bytes(case, params))
    return common | {"CONSUMERS": params["consumers"]}


def shared_bytes(case: AttentionCase, params: dict[str, int]) -> int:
    """Shared memory of a block: queries, outputs, the ring, barriers, and padding that aligns them to 1024 bytes."""
    rows = 2 * 64 * params["consumers"] + params["slots"] * params["keys"]
    return rows * case.head_dim * 2 + 16 * params["slots"] + 32 * params["consumers"] + 1024


def _plan(case: AttentionCase, params: dict[str, int]) -> FlashPlan:
    consumers = params["consumers"]
    return FlashPlan(
        SOURCE, ARCHITECTURE, threads=128 * (consumers + 1), rows=64 * consumers, q_rows=64, o_rows=64,
        keys=params["keys"], shared_bytes=shared_bytes(case, params), constants=constants(case, params),
    )  # fmt: skip


def _params(case: AttentionCase, params: dict[str, Any]) -> dict[str, int]:
    """The params with defaults for those missing. Raises ValueError for an unknown name or a bad value."""
    given = merge_params(FlashHopper.name, params, dict(zip(PARAMS, SHAPES[case.head_dim][0], strict=True)))
    allowed = {"consumers": (2, 3), "keys": (64, 96, 128, 192), "slots": range(2, 17)}
    for name, value in given.items():
        if value not in allowed[name]:
            raise ValueError(f"{name} is {value!r}, not one of {list(allowed[name])}")
    if shared_bytes(case, given) > MAX_SHARED_BYTES:
        raise ValueError(f"slots is {given['slots']}: {shared_bytes(case, given)} bytes of shared memory are too many")
    return given
