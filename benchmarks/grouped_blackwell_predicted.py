"""What grouped_blackwell should take on a B200, by a model: nothing here was measured.

    python -m benchmarks.grouped_blackwell_predicted benchmarks/results/modelled/grouped-blackwell.json

The model of a tile and of the busiest SM is that of `benchmarks.blackwell_predicted`. A case does not say how many rows
each expert has, so the model takes counts that rise from expert to expert as the bench's random ones do in the mean: an
expert's chance is the softmax of half a normal quantile. Device memory moves the weights of each expert that has rows
once, and x and y once.
"""

from dataclasses import asdict
from statistics import NormalDist
from typing import Any

import numpy as np

from benchmarks.blackwell_predicted import Assumptions, assumed, modelled, timed, write
from kernels.blackwell.gemm_tiles import ROWS, Tile
from kernels.blackwell.grouped_tiles import sizes, space, tile_of
from kernels.cases.grouped import bench
from kernels.hardware import GPUS
from kernels.ops import GroupedCase
from kernels.ops.base import BYTES, MATRIX_RATE
from kernels.registry import variant


def rising_rows(case: GroupedCase) -> list[int]:
    """The rows of each expert, the fewest first."""
    quantiles = [NormalDist().inv_cdf((expert + 0.5) / case.experts) for expert in range(case.experts)]
    chances = np.exp(0.5 * np.array(quantiles))
    ends = np.rint(np.cumsum(chances / chances.sum()) * case.rows)
    return [int(size) for size in np.diff(ends, prepend=0)]


def predicted(case: GroupedCase, tile: Tile, of: Assumptions) -> dict[str, Any]:
    """The modelled time of a case with a tile, in ms, what bounds it, and the share of the rows that are multiplied for
    nothing.
    """
    rows, shape = rising_rows(case), sizes(case, tile, case.rows)
    row_tiles = sum(-(-size // (ROWS * tile.blocks)) for size in rows)
    weights = sum(size > 0 for size in rows) * case.weight_rows * case.k
    operands = (weights + case.rows * case.k) * BYTES[case.matrix_precision]
    least_bytes = operands + case.rows * case.n * BYTES[case.dtype]
    work = row_tiles * shape["column_tiles"], shape["steps"]
    row = timed(case, tile, work, least_bytes, MATRIX_RATE[case.matrix_precision], of)
    return row | {"rows_for_nothing": round(1 - case.rows / (row_tiles * ROWS * tile.blocks), 4)}


def cases() -> list[GroupedCase]:
    """The cases of `bench gemm` that a variant for sm_100 serves."""
    mine = [variant(name) for name in ("grouped_blackwell", "grouped_blackwell_fp8")]
    every = [case for case in bench(cpu=False) if isinstance(case, GroupedCase)]
    return [case for case in every if any(ours.serves(case, GPUS["b200"]) is None for ours in mine)]


def result() -> dict[str, Any]:
    """The document: assumptions, and for each case the tile that the model finds fastest."""
    of = assumed()
    tried = [[predicted(case, tile_of(case, params), of) for params in space(case)] for case in cases()]
    return modelled(asdict(of), [min(rows, key=lambda row: row["ms"]) for rows in tried])


if __name__ == "__main__":
    write("grouped_blackwell", result)
