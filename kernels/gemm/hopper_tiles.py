"""Tiles, stages and shared memory of the Hopper products, and which tiles to time. Imports without torch."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kernels.cuda.occupancy import H200_CLUSTERS, MAX_SHARED_BYTES
from kernels.ops import LinearCase
from kernels.registry import check_params

if TYPE_CHECKING:
    import torch

THREADS = 384
INTERLEAVED = 8
"""For swiglu, this many rows of gate alternate with as many of up."""

ROW_BYTES = 128
ROWS = 128
"""Rows of x in a tile."""

LONG_SUM = 8192
"""Values of k beyond which e4m3 sums need promotion to pass the gate; with fp16 outputs they always need it."""

PAIRS = H200_CLUSTERS[2]
"""Clusters of two blocks that the choice of tiles counts on; a launch asks for its GPU's."""


PING_PONG = ({"columns": 192, "stages": 5}, {"columns": 128, "stages": 6})
"""Tiles of the ping-pong schedule, where each warpgroup has a whole tile of its own."""


@dataclass(frozen=True)
class Tile:
    """A tile: 128 rows × `columns` of the product, and how it is computed.

    `stages` of the ring hold 128 bytes of K each. A warpgroup stages `panels` of y (64 rows × 128 bytes) at a time.
    `group` pairs of row tiles are finished before the next columns begin. With `promote` the e4m3 sums of every 128
    values of k are added to a float32 accumulator, since tensor cores add e4m3 products in fewer bits than float32.
    `beside` is the bytes of bias and scales in shared memory. With `ping_pong` the warpgroups compute whole tiles
    alternately, instead of 64 rows each of every tile.
    """

    columns: int
    stages: int
    panels: int
    group: int
    promote: bool = False
    beside: int = 0
    ping_pong: bool = False

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block: ring, staging, bias and scales of the columns, barriers."""
        ring = self.stages * (ROWS + self.columns) * ROW_BYTES
        return ring + 2 * self.panels * 64 * ROW_BYTES + self.beside + 24 * self.stages + 64


def tile_of(case: LinearCase, params: dict[str, Any]) -> Tile:
    """The tile that params name; without params the first of `space`. Raises ValueError that names a param."""
    check_params("this product", params, ("columns", "stages", "group", "promote", "ping_pong"))
    chosen = {"columns": 256, "stages": 4, "group": 8} | (params or space(case)[0])
    columns, stages = chosen["columns"], chosen["stages"]
    promote = bool(chosen.get("promote")) or case.scales == "block"
    served = _widths(case, promote)
    if columns not in served:
        raise ValueError(f"columns is {columns}: this product takes {', '.join(map(str, served))}")
    if promote and not case.scales:
        raise ValueError("promote is true: sums of 16-bit products have one level")
    if chosen["group"] < 1:
        raise ValueError(f"group is {chosen['group']}: at least 1")
    ping_pong = bool(chosen.get("ping_pong"))
    if ping_pong and (columns == 256 or promote or case.epilogue != "none"):
        raise ValueError("ping_pong is true: for tiles of up to 192 columns without an epilogue, in one level of sums")
    beside = columns * (8 * (case.scales == "row") + 4 * case.adds_bias)
    beside += stages * 4 * (ROWS + columns // 128) * (case.scales == "block")
    panels = panels_of(case, columns)
    tile = Tile(columns, stages, panels if ping_pong else -(-panels // 2), chosen["group"], promote, beside, ping_pong)
    if ping_pong and tile.shared_bytes > MAX_SHARED_BYTES:
        tile = replace(tile, panels=1)
    if stages < 2 or tile.shared_bytes > MAX_SHARED_BYTES:
        raise ValueError(f"stages is {stages}: at least 2, and {columns} columns leave no room for so many")
    return tile


def panels_of(case: LinearCase, columns: int) -> int:
    """Panels of y in a tile of that many columns of the product."""
    if case.epilogue == "quantise":
        return columns // 128
    return columns // 128 if case.gates else columns // 64


def _widths(case: LinearCase, promote: bool) -> list[int]:
    """Whole panels of y; with a residual two equal halves of panels; with 128-column scales multiples of 128."""
    odd = not (promote or case.gates or case.epilogue in ("quantise", "residual"))
    return [256, 192, 128] if odd else [256, 128]


def space(case: LinearCase) -> list[dict[str, Any]]:
    """The tiles to time; the one with the fullest last wave comes first."""
    full = case.scales in ("row", "block") and case.adds_bias  # bias and scales leave no room for another stage
    stages = {256: 3 if full else 4, 192: 4, 128: 5}
    widths = _widths(case, case.scales == "block")
    tiles: list[dict[str, Any]] = [{"columns": width, "stages": stages[width]} for width in widths]
    tiles.sort(key=lambda tile: (_work(case, tile["columns"]), -tile["stages"]))
    if case.epilogue == "none" and case.scales != "block":
        tiles += [tile | {"ping_pong": True} for tile in PING_PONG if _pairs(case, tile["columns"]) >= 2 * PAIRS]
    levels = [tile | {"promote": True} for tile in tiles if tile["columns"] != 192 and not tile.get("ping_pong")]
    if case.scales not in ("tensor", "row"):
        return tiles
    if case.dtype == "fp16":
        return levels
    return [*levels, *tiles] if case.k > LONG_SUM else [*tiles, *levels]


def _work(case: LinearCase, columns: int) -> float:
    """The busiest cluster's time, in columns. Narrow tiles move more bytes for each product."""
    return -(-_pairs(case, columns) // PAIRS) * columns * (1 + 16 / columns)


def _pairs(case: LinearCase, columns: int) -> int:
    """Pairs of tiles; a cluster computes one pair at a time."""
    return -(-case.m // (2 * ROWS)) * -(-case.weight_rows // columns)


def interleave_gate_up(w: "torch.Tensor") -> "torch.Tensor":
    """[..., 2n, k], gate rows first, reordered as 8 rows of gate, then the 8 matching rows of up, and so on."""
    return w.unflatten(-2, (2, -1, INTERLEAVED)).transpose(-4, -3).flatten(-4, -2)
