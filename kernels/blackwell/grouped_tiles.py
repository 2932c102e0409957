"""The tiles of grouped.cu, its parameters and its macros. Imports without torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kernels.blackwell import gemm_tiles
from kernels.blackwell.gemm_tiles import ARCHITECTURE, COLUMNS, OPERANDS, ROWS, STAGE_VALUES, Tile
from kernels.cuda.nvrtc import Build
from kernels.ops import GroupedCase, LinearCase

SOURCE = Path(__file__).with_name("grouped.cu")

PARAMS = np.dtype([*OPERANDS, ("offs", np.uint64), ("y", np.uint64), ("weight_rows", np.int32)], align=True)
"""`struct Params` of grouped.cu."""


def dense_case(case: GroupedCase) -> LinearCase:
    """The product of all rows with one expert's w: the plain kernel's case of the same types and sizes."""
    weights: Any = case.matrix_precision
    return LinearCase(m=case.rows, n=case.n, k=case.k, dtype=case.dtype, weights=weights, epilogue=case.epilogue,
                      scales=case.scales)  # fmt: skip


def equal_rows(case: GroupedCase) -> Sequence[int]:
    """The rows of each expert if all have as many; the case does not say how many. `space` orders by them."""
    rows, more = divmod(case.rows, case.experts)
    return [rows + (expert < more) for expert in range(case.experts)]


def space(case: GroupedCase) -> list[dict[str, Any]]:
    """The tiles to time, each with as many stages as find room; the one with the least work of the busiest SM first."""
    kind, rows = gemm_tiles.matrix_kind(dense_case(case)), equal_rows(case)
    tiles = [{"columns": columns, "stages": gemm_tiles.max_stages(kind, columns, pair, case.experts), "pair": pair}
             for columns in COLUMNS for pair in (True, False) if not pair or case.rows > ROWS]  # fmt: skip
    return sorted(tiles, key=lambda tile: gemm_tiles.work(rows, case.weight_rows, tile["columns"], tile["pair"]))


def tile_of(case: GroupedCase, params: dict[str, Any]) -> Tile:
    """The tile that params name; without params the first of `space`. Raises ValueError that names a param."""
    kind, takes = gemm_tiles.matrix_kind(dense_case(case)), ("columns", "stages", "pair")
    return gemm_tiles.select_tile(kind, params or space(case)[0], takes, case.experts)


def sizes(case: GroupedCase, tile: Tile, rows: int) -> dict[str, int]:
    """The sizes among the params of a launch; x has `rows` rows."""
    return {
        "rows": rows, "columns": case.n, "steps": -(-case.k // STAGE_VALUES[tile.kind]),
        "column_tiles": -(-case.weight_rows // tile.columns), "weight_rows": case.weight_rows,
    }  # fmt: skip


def max_tiles(case: GroupedCase, tile: Tile, rows: int) -> int:
    """The most tiles that clusters may compute: each expert with rows may end in the middle of a tile."""
    row_tiles = rows // (ROWS * tile.blocks) + min(case.experts, rows)
    return row_tiles * sizes(case, tile, rows)["column_tiles"]


def constants(case: GroupedCase, tile: Tile) -> dict[str, Any]:
    """The macros of grouped.cu for a case."""
    plain = gemm_tiles.constants(dense_case(case), tile)
    return plain | {"EXPERTS": case.experts, "PARAMS_BYTES": PARAMS.itemsize}


def build_of(case: GroupedCase, tile: Tile) -> Build:
    return Build.of(SOURCE, constants(case, tile), ARCHITECTURE)
