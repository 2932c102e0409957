"""Tiles, stages and shared memory of the Hopper products, and which are worth timing. Imports without torch."""

from dataclasses import dataclass
from typing import Any

from kernels.ops import LinearCase

SHARED_MOST = 227 * 1024
ROW_BYTES = 128
ROWS = 128
"""Rows of x in a tile."""

LONG_SUM = 8192
"""Values of k beyond which one level of e4m3 sums may be too short for the accuracy gate; in fp16 any k is."""

PAIRS = 66
"""Clusters of two blocks on the GPUs that these products are built for."""


@dataclass(frozen=True)
class Tile:
    """128 × `columns` of the product; `stages` of 128 bytes of K in the ring; `panels` of y (64 rows by 128 bytes) that
    a warpgroup stages at a time; `group` pairs of row tiles before the next columns begin; `two_levels`: every 128 of
    k is added to a second accumulator, which the matrix units' shorter sums of e4m3 products need for full precision;
    `vectors`: bytes of bias and scales that a column has for each of two warpgroups.
    """

    columns: int
    stages: int
    panels: int
    group: int
    two_levels: bool = False
    vectors: int = 0

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block: ring, staging, what columns have, barriers."""
        ring = self.stages * (ROWS + self.columns) * ROW_BYTES
        return ring + 2 * self.panels * 64 * ROW_BYTES + 2 * self.vectors * self.columns + 16 * self.stages + 64


def tile_of(case: LinearCase, params: dict[str, Any]) -> Tile:
    """The tile that params name, the first of `space` where they name none. Raises ValueError that names a param."""
    unknown = set(params) - {"columns", "stages", "group", "two_levels"}
    if unknown:
        raise ValueError(f"this product takes columns, stages, group and two_levels, not {', '.join(sorted(unknown))}")
    chosen = {"columns": 256, "stages": 3, "group": 8} | (params or space(case)[0])
    columns, stages = chosen["columns"], chosen["stages"]
    two_levels = bool(chosen.get("two_levels")) or case.scales == "block"
    if columns not in ((128, 256) if two_levels else (128, 192, 256)):
        raise ValueError(f"columns is {columns}: 128, 256 or, with one level of sums, 192")
    if two_levels and not case.scales:
        raise ValueError("two_levels is true: sums of 16-bit products have one level")
    if chosen["group"] < 1:
        raise ValueError(f"group is {chosen['group']}: at least 1")
    whole, vectors = panels_of(case, columns), 4 * (case.scales == "row") + 2 * case.adds_bias
    for panels in (each for each in range(whole, 0, -1) if whole % each == 0):
        tile = Tile(columns, stages, panels, chosen["group"], two_levels, vectors)
        if stages >= 2 and tile.shared_bytes <= SHARED_MOST and (panels == whole or case.epilogue != "residual"):
            return tile
    raise ValueError(f"stages is {stages}: {columns} columns leave no room for so many, or it is below 2")


def panels_of(case: LinearCase, columns: int) -> int:
    """Panels of y in a tile of so many columns of the product."""
    if case.epilogue == "quantise":
        return columns // 128
    return columns // 128 if case.gates else columns // 64


def space(case: LinearCase) -> list[dict[str, Any]]:
    """Tiles worth timing: the one whose last wave is fullest first."""
    found: list[dict[str, Any]] = [{"columns": 256, "stages": 3}, {"columns": 128, "stages": 5}]
    if case.epilogue != "residual" and not (case.scales == "row" and case.adds_bias):  # what they stage leaves no room
        found.append({"columns": 256, "stages": 4})
    if not case.gates and case.epilogue != "quantise" and case.scales != "block":  # 192 are no whole panels of those
        found.append({"columns": 192, "stages": 4})
    found.sort(key=lambda each: (_work(case, each["columns"]), -each["stages"]))
    levels = [each | {"two_levels": True} for each in found if each["columns"] != 192]
    if case.scales not in ("tensor", "row"):
        return found
    if case.dtype == "fp16":
        return levels
    return [*levels, *found] if case.k > LONG_SUM else [*found, *levels]


def _work(case: LinearCase, columns: int) -> float:
    """Time of the longest share of tiles, in columns; narrow tiles move more bytes for each product."""
    pairs = -(-case.m // (2 * ROWS)) * -(-case.weight_rows // columns)
    return -(-pairs // PAIRS) * columns * (1 + 16 / columns)
