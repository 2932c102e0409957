"""The sizes of step_attention.cu that Python and the kernel share. Imports without torch."""

from pathlib import Path
from typing import Any

import numpy as np

from kernels.ops import StepAttentionCase
from kernels.ops.paged_kv import PAGE_SIZE

SOURCE = Path(__file__).with_name("step_attention.cu")
THREADS, WARPS = 256, 8

FIELDS = [
    *((name, "u8") for name in ("qkv", "cosines", "sines", "query_norm", "key_norm", "sinks", "keys", "values", "out")),
    *((name, "u8") for name in ("position", "tables")),
    *((name, "i8") for name in ("position_step", "table_step", "page_step")),
    *((name, "i4") for name in ("token_step", "head_step", "capacity", "window", "pages")),
    *((name, "f4") for name in ("scale", "norm_eps")),
]
"""The fields of `struct Params` of step_attention.cuh."""


def page_size_of(case: StepAttentionCase) -> int:
    """Tokens of a page; 0 of a contiguous cache."""
    return (case.page_size or PAGE_SIZE) if case.paged else 0


def sizes(defines: dict[str, Any]) -> dict[str, int]:
    """Macros with the sizes of the structs that Python builds; the compiler checks them."""
    shared = shared_bytes(*(defines[name] for name in ("HEAD_DIM", "GROUP", "CHUNK", "SPLITS")))
    return {"PARAMS_BYTES": np.dtype(FIELDS, align=True).itemsize, "SHARED_BYTES": shared}


def shared_bytes(head_dim: int, group: int, chunk: int, splits: int) -> int:
    """Size of the kernel's `Shared` with `group` query heads."""
    floats = max(4 * chunk * head_dim, 4 * WARPS * group * head_dim)
    size = floats + 6 * head_dim + 4 * group * (2 * head_dim + chunk + 3 + 4 * splits) + 24
    return -(-size // 16) * 16
