"""FlashAttention in CUDA C++ for Hopper: TMA, warpgroup products, exponentials overlapped with products."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.cuda.occupancy import SHARED_MOST
from kernels.hardware import Gpu
from kernels.ops import AttentionCase
from kernels.registry import Refusal, Variant, register

if TYPE_CHECKING:
    import torch

SOURCE = Path(__file__).with_suffix(".cu")
ENTRY = "flash_hopper"
TYPES = {"bf16": "bf16", "fp16": "f16"}

PARAMS = ("consumers", "keys", "slots")
SHAPES: dict[int, tuple[tuple[int, int, int], ...]] = {
    64: ((3, 128, 8), (2, 128, 8)),
    128: ((2, 128, 5),),
}
"""The params to time for each head_dim, as `PARAMS`."""

SHAPE = np.dtype([("schedule", "u8"), ("group", "i4"), ("q_len", "i4"), ("kv_len", "i4"), ("scale", "f4")])
"""`struct Shape` of the source."""


@register
class FlashHopper(Variant):
    """Causal or not, windows, grouped heads, any lengths; head_dim 64 and 128, bf16 and fp16, sequences of one length.

    One warpgroup's products run while the others compute exponentials. Sums are rescaled lazily: only when a maximum
    has grown by more than a threshold. Source: Shah et al., FlashAttention-3 (2024).
    """

    name = "flash_hopper"
    op = "attention"
    page = "flash-hopper"
    summary = "FlashAttention in CUDA C++ for Hopper (sm_90a)"

    def serves(self, case: AttentionCase, gpu: Gpu) -> Refusal | None:
        if gpu.sm != 90:
            return Refusal(f"device is {gpu.name}: this variant is written for Hopper (sm_90a)")
        return _refused(case)

    def build(self, case: AttentionCase, params: dict[str, Any]) -> "Callable[..., torch.Tensor]":
        """f(q, k, v) -> o, contiguous.

        Params: `consumers`, warpgroups of 64 queries each (2 or 3); `keys` of a block; `slots`, blocks of keys or of
        values in flight. Raises ValueError for an unsupported case or param. A call raises ValueError that names an
        argument that does not fit the case, or that TMA cannot read: addresses and strides must be multiples of 16
        bytes.
        """
        from kernels.attention.flash_hopper_call import FlashCall

        refusal = _refused(case)
        if refusal is not None:
            raise ValueError(f"case.{refusal.reason}")
        return FlashCall(case, _params(case, params))

    def space(self, case: AttentionCase) -> list[dict[str, Any]]:
        return [dict(zip(PARAMS, shape, strict=True)) for shape in SHAPES[case.head_dim]]


def constants(case: AttentionCase, params: dict[str, int]) -> dict[str, Any]:
    """The macros of the source for the case."""
    fixed = {"TYPE": TYPES[case.dtype], "HEAD_DIM": case.head_dim, "CAUSAL": int(case.causal)}
    sizes = {"PARAMS_BYTES": SHAPE.itemsize, "SHARED_BYTES": shared_bytes(case, params)}
    return fixed | {"WINDOW": case.window or 0} | {name.upper(): params[name] for name in PARAMS} | sizes


def shared_bytes(case: AttentionCase, params: dict[str, int]) -> int:
    """Shared memory of a block: queries, outputs, the ring, barriers, and padding that aligns them to 1024 bytes."""
    rows = 2 * 64 * params["consumers"] + params["slots"] * params["keys"]
    return rows * case.head_dim * 2 + 16 * params["slots"] + 32 * params["consumers"] + 1024


def _refused(case: AttentionCase) -> Refusal | None:
    if case.kind == "decode":
        return Refusal("kind is decode: this variant works on 64 queries of a head at a time")
    if case.head_dim not in SHAPES:
        return Refusal(f"head_dim is {case.head_dim}: this variant takes 64 and 128")
    if case.dtype not in TYPES:
        return Refusal(f"dtype is {case.dtype}: this variant takes bf16 and fp16")
    if case.kv_dtype != case.dtype:
        return Refusal(f"kv_dtype is {case.kv_dtype} and dtype {case.dtype}: this variant wants them equal")
    if case.paged:
        return Refusal("paged is true: this variant reads contiguous keys and values only")
    if case.lengths is not None:
        return Refusal("lengths is given: this variant takes sequences of one length only")
    if case.softcap is not None:
        return Refusal(f"softcap is {case.softcap:g}: this variant has no soft cap")
    if case.heads % case.kv_heads:
        return Refusal(f"heads is {case.heads}, not a multiple of kv_heads {case.kv_heads}")
    if case.window is not None and case.window < 1:
        return Refusal(f"window is {case.window}: a query sees at least itself")
    return None


def _params(case: AttentionCase, params: dict[str, Any]) -> dict[str, int]:
    """The params with defaults for those missing. Raises ValueError for an unknown name or a bad value."""
    given = dict(zip(PARAMS, SHAPES[case.head_dim][0], strict=True)) | params
    allowed = {"consumers": (2, 3), "keys": (64, 96, 128, 192), "slots": range(2, 17)}
    for name, value in given.items():
        if name not in allowed:
            raise ValueError(f"{FlashHopper.name} takes {', '.join(PARAMS)}, not {name}")
        if value not in allowed[name]:
            raise ValueError(f"{name} is {value!r}, not one of {list(allowed[name])}")
    if shared_bytes(case, given) > SHARED_MOST:
        raise ValueError(f"slots is {given['slots']}: {shared_bytes(case, given)} bytes of shared memory are too many")
    return given
