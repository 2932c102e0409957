"""What `flash_hopper` and `flash_blackwell` share: the cases they refuse, and the plan of a launch. Without torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernels.check_args import C_TYPES
from kernels.cuda.nvrtc import Build
from kernels.ops import AttentionCase
from kernels.registry import Refusal

HEAD_DIMS = (64, 128)

SHAPE = np.dtype([("schedule", "u8"), ("group", "i4"), ("q_len", "i4"), ("kv_len", "i4"), ("scale", "f4")])
"""`struct Shape` of visible.cuh."""


@dataclass(frozen=True)
class FlashPlan:
    """How a source is compiled and launched. A block of the grid has `threads` threads and works on tiles of `rows`
    queries and blocks of `keys` keys; one copy brings `q_rows` queries and one stores `o_rows`. Sizes in bytes.
    """

    source: Path
    architecture: str
    threads: int
    rows: int
    q_rows: int
    o_rows: int
    keys: int
    shared_bytes: int
    constants: dict[str, Any]

    @property
    def entry(self) -> str:
        """The kernel's name."""
        return self.source.stem

    @property
    def build(self) -> Build:
        return Build.of(self.source, self.constants, self.architecture)


def common_constants(case: AttentionCase, keys: int, slots: int, shared_bytes: int) -> dict[str, Any]:
    """The macros that both sources have."""
    return {
        "TYPE": C_TYPES[case.dtype], "HEAD_DIM": case.head_dim, "CAUSAL": int(case.causal), "WINDOW": case.window or 0,
        "KEYS": keys, "SLOTS": slots, "PARAMS_BYTES": SHAPE.itemsize, "SHARED_BYTES": shared_bytes,
    }  # fmt: skip


def refusal_of(case: AttentionCase) -> Refusal | None:
    """Why neither variant takes a case, on any GPU."""
    if case.kind == "decode":
        return Refusal("kind is decode: this variant works on 64 queries of a head or more at a time")
    if case.head_dim not in HEAD_DIMS:
        return Refusal(f"head_dim is {case.head_dim}: this variant takes 64 and 128")
    if case.dtype not in C_TYPES:
        return Refusal(f"dtype is {case.dtype}: this variant takes bf16 and fp16")
    if case.kv_dtype != case.dtype:
        return Refusal(f"kv_dtype is {case.kv_dtype} and dtype {case.dtype}: this variant wants them equal")
    if case.paged:
        return Refusal("keys and values are paged: this variant reads contiguous ones only")
    if case.lengths is not None:
        return Refusal(f"{len(case.lengths)} lengths are given: this variant takes sequences of one length only")
    if case.sinks:
        return Refusal("sinks are given: this variant has none")
    if case.softcap is not None:
        return Refusal(f"softcap is {case.softcap:g}: this variant has no soft cap")
    if case.heads % case.kv_heads:
        return Refusal(f"heads is {case.heads}, not a multiple of kv_heads {case.kv_heads}")
    if case.window is not None and case.window < 1:
        return Refusal(f"window is {case.window}: a query sees at least itself")
    return None
