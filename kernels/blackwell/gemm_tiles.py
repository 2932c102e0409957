"""Tiles, stages, shared memory and TMEM of the Blackwell products. Imports without torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels.check_args import C_TYPES
from kernels.cuda.occupancy import MAX_SHARED_BYTES
from kernels.hardware import GPUS
from kernels.ops import LinearCase
from kernels.registry import check_params

SM, ARCHITECTURE = 100, "sm_100a"
EPILOGUES = {"none": "kNone", "bias": "kBias", "residual": "kResidual", "swiglu": "kSwiglu"}
"""Epilogues by their names in epilogue.cuh."""

THREADS = 192
ROWS = 128
"""Rows of x in a tile."""

ROW_BYTES = 128
"""Bytes of K of each row in a stage."""

COLUMNS = (256, 128)
TMEM_COLUMNS = 512
SCALE_TILE_BYTES, SCALE_TILE_COLUMNS = 512, 4
"""A tile of 128 × 4 scales: bytes of memory, columns of TMEM."""

STAGING = 4 * 2 * 32 * ROW_BYTES
"""Bytes of four warps' two panels of y."""

QUEUE = 2 * 16 + 4 * 8 + 16
"""Bytes of two answers of the scheduler and their barriers, aligned to 16."""

STAGE_VALUES = {"kBf16": 64, "kF16": 64, "kE4m3": 128, "kMxfp8": 128, "kNvfp4": 256}
"""Values of K of a stage."""

_SCALE_TILES = {"kMxfp8": 1, "kNvfp4": 4}
"""Tiles of scales of 128 rows and a stage."""

OPERANDS: list[tuple[str, Any]] = [(name, np.uint64) for name in ("bias", "residual", "x_scales", "w_scales")]
OPERANDS += [(name, np.int32) for name in ("rows", "columns", "steps", "column_tiles")]
"""The fields of `struct Operands` of epilogue.cuh: the params of each kernel begin with them."""

PARAMS = np.dtype([*OPERANDS, ("row_tiles", np.int32), ("group", np.int32)], align=True)
"""`struct Params` of gemm.cu."""

SMS = GPUS["b200"].sms if "b200" in GPUS else 148
"""Blocks at one time that the choice of tiles counts on; a launch asks for its GPU's."""


@dataclass(frozen=True)
class Tile:
    """128 rows × `columns` of the product, summed in `stages` of 128 bytes of K; `group` row tiles are finished before
    the next columns begin. `kind` is a MatrixKind of descriptors.cuh. With `pair` the two blocks of a cluster take two
    such tiles, one below the other: each loads half of w, both get the block scales of all of it, and one thread issues
    the products of both. With `dynamic` the hardware hands out the tiles (cluster launch control), else each cluster
    takes its own by number. A grouped product has `experts`.
    """

    kind: str
    columns: int
    stages: int
    group: int = 8
    pair: bool = False
    dynamic: bool = False
    experts: int = 0

    @property
    def blocks(self) -> int:
        """Blocks of a cluster."""
        return 2 if self.pair else 1

    @property
    def scale_tiles(self) -> int:
        """Tiles of scales of 128 rows and a stage; 0 without block scales."""
        return _SCALE_TILES.get(self.kind, 0)

    @property
    def sends_scales(self) -> bool:
        """Whether each block of a pair loads the block scales of half of w, and sends them to both."""
        return self.pair and bool(self.scale_tiles) and self.columns == 2 * ROWS

    @property
    def stage_bytes(self) -> int:
        """What the copies of a stage bring."""
        row_tiles = 1 + self.columns // ROWS
        return (ROWS + self.columns // self.blocks) * ROW_BYTES + row_tiles * self.scale_tiles * SCALE_TILE_BYTES

    @property
    def accumulators(self) -> int:
        """Two where TMEM has room for two and the scales."""
        return 2 if 2 * self.columns + self._scale_columns <= TMEM_COLUMNS else 1

    @property
    def _scale_columns(self) -> int:
        return (1 + self.columns // ROWS) * self.scale_tiles * SCALE_TILE_COLUMNS

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block: ring with scales, staging, answers, barriers, two numbers of an expert."""
        without = 0 if self.scale_tiles else 256  # arrays of one byte a stage, aligned to 128
        return self.stages * (self.stage_bytes + 16) + STAGING + without + QUEUE + 64 + 8 * self.experts


def matrix_kind(case: LinearCase) -> str:
    """The MatrixKind of a case that is served."""
    if case.scales is None:
        return {"bf16": "kBf16", "fp16": "kF16"}[case.dtype]
    return {"block32": "kMxfp8", "block16": "kNvfp4"}.get(case.scales, "kE4m3")


def space(case: LinearCase) -> list[dict[str, Any]]:
    """The tiles to time, each with the most stages, the least work of the busiest SM first; pairs need more rows."""
    kind = matrix_kind(case)
    tiles = [{"columns": column, "stages": max_stages(kind, column, pair), "pair": pair, "dynamic": dynamic}
             for column in COLUMNS for pair in (True, False) if not pair or case.m > ROWS
             for dynamic in (False, True)]  # fmt: skip
    return sorted(tiles, key=lambda tile: work((case.m,), case.weight_rows, tile["columns"], tile["pair"]))


def tile_of(case: LinearCase, params: dict[str, Any]) -> Tile:
    """The tile that params name; without params the first of `space`. Raises ValueError that names a param."""
    takes = ("columns", "stages", "group", "pair", "dynamic")
    return select_tile(matrix_kind(case), params or space(case)[0], takes)


def select_tile(kind: str, params: dict[str, Any], takes: Sequence[str], experts: int = 0) -> Tile:
    """The tile of these params. Raises ValueError that names a param that is wrong, or is not in `takes`."""
    check_params("this product", params, takes)
    given = {"pair": False, "columns": max(COLUMNS)} | params
    if given["columns"] not in COLUMNS:
        raise ValueError(f"columns is {given['columns']}: this product takes {' and '.join(map(str, COLUMNS))}")
    if "stages" not in params:
        given["stages"] = max_stages(kind, given["columns"], given["pair"], experts)
    tile = Tile(kind, experts=experts, **given)
    if tile.group < 1:
        raise ValueError(f"group is {tile.group}: at least 1")
    if tile.stages < 2 or tile.shared_bytes > MAX_SHARED_BYTES:
        raise ValueError(f"stages is {tile.stages}: at least 2, and {tile.columns} columns leave no room for so many")
    return tile


def sizes(case: LinearCase, tile: Tile, m: int) -> dict[str, int]:
    """The sizes among the params of a launch with m rows. Row tiles are those of a cluster."""
    return {
        "rows": m, "columns": case.n, "steps": -(-case.k // STAGE_VALUES[tile.kind]),
        "row_tiles": -(-m // (ROWS * tile.blocks)),
        "column_tiles": -(-case.weight_rows // tile.columns), "group": tile.group,
    }  # fmt: skip


def max_stages(kind: str, columns: int, pair: bool, experts: int = 0) -> int:
    """The most stages for which a block's shared memory has room, 8 at most."""
    tiles = (Tile(kind, columns, stages, pair=pair, experts=experts) for stages in range(8, 0, -1))
    return next(tile.stages for tile in tiles if tile.shared_bytes <= MAX_SHARED_BYTES)


def work(rows: Sequence[int], weight_rows: int, columns: int, pair: bool) -> int:
    """The busiest SM's time with these rows of each expert (else of all of x): columns, or, where the L2 takes longer
    than the tensor cores, the rows of x and w that a block loads. Both are taken to need two clocks for a stage's 128
    bytes of K.
    """
    blocks = 2 if pair else 1
    tiles = sum(-(-row // (ROWS * blocks)) for row in rows) * -(-weight_rows // columns)
    return -(-tiles // (SMS // blocks)) * max(columns, ROWS + columns // blocks)


def constants(case: LinearCase, tile: Tile) -> dict[str, Any]:
    """The macros of gemm.cu for a case."""
    scales = {None: 0, "block32": 0, "row": 2}.get(case.scales, 1)  # NVFP4 has one for the tensor as well
    return {
        "KIND": tile.kind, "OUT": C_TYPES[case.dtype], "EPILOGUE": EPILOGUES[case.epilogue], "SCALES": scales,
        "BN": tile.columns, "BLOCKS": tile.blocks, "DYNAMIC": int(tile.dynamic), "STAGES": tile.stages,
        "PARAMS_BYTES": PARAMS.itemsize, "SHARED_BYTES": tile.shared_bytes,
    }  # fmt: skip
