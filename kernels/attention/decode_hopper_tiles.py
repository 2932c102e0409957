"""How decode attention on Hopper divides its keys, and how decode_hopper.cu is built for it. Imports without torch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kernels.check_args import C_TYPES
from kernels.cuda.nvrtc import Build
from kernels.ops import AttentionCase

SOURCE = Path(__file__).with_name("decode_hopper.cu")
MAX_SPLITS, MAX_CLUSTER = 32, 8
STEP = 16
"""Keys of one product. A page must hold a multiple of them."""

POINTERS = ("q", "k", "v", "o", "parts", "sums", "arrivals", "lengths", "table", "k_scale", "v_scale")
STRIDES = ("q_batch", "q_head", "k_first", "k_head", "v_first", "v_head")
PARAMS = np.dtype(
    [(name, np.uint64) for name in POINTERS]
    + [(name, np.int64) for name in (*STRIDES, "lengths_step", "table_step")]
    + [(name, np.uint32) for name in ("k_token", "v_token")]
    + [(name, np.int32) for name in ("wide", "more", "capacity", "pages")]
    + [("scale", np.float32)],
    align=True,
)
"""`struct Params` of decode_hopper.cu; strides in bytes, except those of lengths and table."""


def constants(case: AttentionCase, tuning: dict[str, int], splits: int, counted: bool, page: int) -> dict[str, Any]:
    """The macros of the source; `page` is 0 where the cache is contiguous."""
    given = {
        "ELEMENT": C_TYPES[case.dtype], "FP8": int(case.kv_dtype == "fp8"), "HEAD_DIM": case.head_dim,
        "GROUP": case.heads // case.kv_heads, "WARPS": tuning["warps"], "STEPS": tuning["steps"],
        "SPLITS": splits, "CLUSTER": splits if splits <= MAX_CLUSTER else 1, "PAGE": page, "LENGTHS": int(counted),
    }  # fmt: skip
    return given | {"PARAMS_BYTES": PARAMS.itemsize, "SHARED_BYTES": shared_bytes(given)}


def build_of(case: AttentionCase, tuning: dict[str, int], splits: int, counted: bool, page: int) -> Build:
    return Build.of(SOURCE, constants(case, tuning, splits, counted, page))


def page_of(case: AttentionCase) -> int:
    """The tokens of a page where nothing else is said; 0 where the cache is contiguous."""
    return (case.page_size or STEP) if case.paged else 0


def shared_bytes(given: Mapping[str, Any]) -> int:
    """Size of the kernel's `Shared`."""
    floats = given["WARPS"] * (given["HEAD_DIM"] + 2) + given["CLUSTER"] * (given["HEAD_DIM"] + 1)
    return 4 * given["GROUP"] * floats + 16


def split_count(case: AttentionCase, tuning: dict[str, int], processors: int) -> int:
    """Blocks of each pair of sequence and KV head that fill the GPU once; each has at least a step for every warp."""
    filling = processors // max(1, case.batch * case.kv_heads)
    return max(1, min(filling, case.kv_len // (STEP * tuning["warps"]), MAX_SPLITS))
