"""`grouped_blackwell`: the products of a mixture-of-experts layer in one launch, by hand for sm_100a.

It compiles and is emulated; it never ran on the chip.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.check_args import check_served
from kernels.cuda.nvrtc import Build
from kernels.gemm import blackwell_plan
from kernels.gemm.blackwell_plan import ARCHITECTURE, COLUMNS, OPERANDS, ROWS, SM, STAGE_VALUES, Tile
from kernels.gemm.grouped_hopper import packed, refusal
from kernels.hardware import Gpu
from kernels.ops import GroupedCase, LinearCase
from kernels.registry import Refusal, Variant, register

if TYPE_CHECKING:
    import torch

SOURCE = Path(__file__).with_name("grouped_blackwell.cu")

PARAMS = np.dtype([*OPERANDS, ("ends", np.uint64), ("y", np.uint64), ("weight_rows", np.int32)], align=True)
"""`struct Params` of grouped_blackwell.cu."""


@register
class GroupedBlackwell(Variant):
    """One persistent launch for all experts; docs/kernels/grouped-blackwell.md."""

    name = "grouped_blackwell"
    op = "grouped"
    page = "grouped-blackwell"
    summary = "all experts' products in tensor memory (sm_100a); compiles, emulated, never run on the chip"

    def serves(self, case: GroupedCase, gpu: Gpu) -> Refusal | None:
        return refusal(case, gpu, SM)

    def pack(self, case: GroupedCase, params: dict[str, Any], weight: "torch.Tensor") -> "torch.Tensor":
        """w as it is; for swiglu each expert's gate and up interleaved by 8 rows, [experts, 2n, k]."""
        return packed(case, weight)

    def cuda_builds(self, case: GroupedCase, params: dict[str, Any], gpu: Gpu) -> list[Build]:
        return [build_of(case, tile_of(case, params))]

    def space(self, case: GroupedCase) -> list[dict[str, Any]]:
        return space(case)

    def build(self, case: GroupedCase, params: dict[str, Any]) -> "Callable[..., torch.Tensor]":
        """f(x [rows, k], w [experts, n, k], ends [experts] int32) -> y [rows, n], rows sorted by expert.

        `ends` stays on the device. Ends that are out of order or exceed the rows cause no access outside the tensors.
        Rows after the last end are not written. Raises ValueError that names the argument.
        """
        from kernels.gemm.grouped_blackwell_call import GroupedBlackwellProduct

        check_served(self, case, SM)
        return GroupedBlackwellProduct(case, params)


def of_all_rows(case: GroupedCase) -> LinearCase:
    """The product of all rows with one expert's w: the plain kernel's case of the same types and sizes."""
    return LinearCase(m=case.rows, n=case.n, k=case.k, dtype=case.dtype, weights=case.dtype, epilogue=case.epilogue)


def rows_of_experts(case: GroupedCase) -> Sequence[int]:
    """The rows of each expert where all have as many as the others, which nobody knows: for the order of `space`."""
    each, more = divmod(case.rows, case.experts)
    return [each + (expert < more) for expert in range(case.experts)]


def space(case: GroupedCase) -> list[dict[str, Any]]:
    """The tiles to time, each with as many stages as find room; the one with the least work of the busiest SM first."""
    kind, rows = blackwell_plan.kind_of(of_all_rows(case)), rows_of_experts(case)
    found = [{"columns": columns, "stages": blackwell_plan.most_stages(kind, columns, pair, case.experts), "pair": pair}
             for columns in COLUMNS for pair in (True, False) if not pair or case.rows > ROWS]  # fmt: skip
    return sorted(found, key=lambda each: blackwell_plan.work(rows, case.weight_rows, each["columns"], each["pair"]))


def tile_of(case: GroupedCase, params: dict[str, Any]) -> Tile:
    """The tile that params name; without params the first of `space`. Raises ValueError that names a param."""
    kind, takes = blackwell_plan.kind_of(of_all_rows(case)), ("columns", "stages", "pair")
    return blackwell_plan.chosen(kind, params or space(case)[0], takes, case.experts)


def sizes(case: GroupedCase, tile: Tile, rows: int) -> dict[str, int]:
    """The sizes among the params of a launch with so many rows of x."""
    return {
        "rows": rows, "columns": case.n, "steps": -(-case.k // STAGE_VALUES[tile.kind]),
        "column_tiles": -(-case.weight_rows // tile.columns), "weight_rows": case.weight_rows,
    }  # fmt: skip


def most_tiles(case: GroupedCase, tile: Tile, rows: int) -> int:
    """The most tiles that clusters may compute: each expert with rows may end in the middle of a tile."""
    row_tiles = rows // (ROWS * tile.blocks) + min(case.experts, rows)
    return row_tiles * sizes(case, tile, rows)["column_tiles"]


def constants(case: GroupedCase, tile: Tile) -> dict[str, Any]:
    """The macros of grouped_blackwell.cu for a case."""
    plain = blackwell_plan.constants(of_all_rows(case), tile)
    return plain | {"EXPERTS": case.experts, "PARAMS_BYTES": PARAMS.itemsize}


def build_of(case: GroupedCase, tile: Tile) -> Build:
    return Build.of(SOURCE, constants(case, tile), ARCHITECTURE)
