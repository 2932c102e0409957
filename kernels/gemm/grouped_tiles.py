"""The tiles of grouped.cu, its parameters and its macros. Imports without torch."""

from pathlib import Path
from typing import Any

import numpy as np

from kernels.check_args import C_TYPES
from kernels.cuda.occupancy import MAX_SHARED_BYTES
from kernels.gemm.hopper_tiles import ROW_BYTES
from kernels.ops import GroupedCase

SOURCE = Path(__file__).with_name("grouped.cu")
MAX_ROWS, COLUMNS, STAGED_ROWS = 256, 128, 128
"""A tile has at most so many rows of x, and so many rows of w; shared memory stages so many rows of y at once."""

X_BOXES = (64, 32, 16, 8)
"""Rows of x that one TMA copy may load."""

PARAMS = np.dtype(
    [("offs", np.uint64), ("y", np.uint64)]
    + [(name, np.int32) for name in ("rows", "columns", "k", "weight_rows", "column_pairs")],
    align=True,
)
"""`struct GroupedParams` of grouped_schedule.cuh."""


def constants(case: GroupedCase, tiled: bool = False) -> tuple[dict[str, Any], int]:
    """The macros of grouped.cu and its dynamic shared memory, with as many stages as fit. w may be `tiled`."""
    gates = case.epilogue == "swiglu"
    other = 2 * STAGED_ROWS * (ROW_BYTES // 2 if gates else ROW_BYTES) + 16 * case.experts + 256
    stage = (COLUMNS + MAX_ROWS) * ROW_BYTES
    stages = (MAX_SHARED_BYTES - other) // stage
    macros = {
        "TYPE": C_TYPES[case.dtype], "EPILOGUE": "kSwiglu" if gates else "kNone", "STAGES": stages,
        "EXPERTS": case.experts, "PARAMS_BYTES": PARAMS.itemsize, "SHARED_BYTES": stages * stage + other,
        "TILED": int(tiled),
    }  # fmt: skip
    return macros, stages * stage + other
