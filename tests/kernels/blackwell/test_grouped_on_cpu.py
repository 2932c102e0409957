"""grouped_blackwell run thread by thread on a CPU, its tensor cores emulated: which rows are whose, and who stores."""

import ctypes
from itertools import accumulate
from typing import Any

import pytest
import torch
from torch import Tensor

from kernels.blackwell import grouped_tiles
from kernels.blackwell.grouped_tiles import tile_of
from kernels.ops import GroupedCase
from kernels.proof import inputs
from kernels.registry import variant
from tests.kernels.blackwell.gemm_on_cpu import ENTRY, grouped_library, run_grouped
from tests.kernels.on_cpu import planted_source

RAGGED = (0, 1, 130, 0, 31, 256, 32, 0, 3)
"""Rows of each expert: none, one, more than a block's; ends within a panel and at its end; a whole tile of a pair."""


def given(case: GroupedCase, ends: list[int]) -> tuple[dict[str, Tensor], Tensor]:
    """Inputs with these ends, and y in float64: NaN in rows that belong to no expert."""
    drawn = inputs.draw(case, "cpu", 1) | {"offs": torch.tensor(ends, dtype=torch.int32)}
    clamped = torch.tensor(ends).clamp(0, case.rows).cummax(0).values
    held = variant("grouped_blackwell_fp8").rounded(case, {}, drawn) if case.scales else drawn
    inside = drawn | {"offs": clamped, "x": held["x"][: clamped[-1]].double(), "w": held["w"].double()}
    y = torch.full((case.rows, case.n), float("nan"), dtype=torch.float64)
    y[: clamped[-1]] = case.reference(inside)[0]
    return drawn, y


def is_right(y: Tensor, truth: Tensor) -> bool:
    """Whether y is the truth, rounded, and rows that belong to no expert are as they were."""
    close = (y.double() - truth).abs() <= torch.finfo(y.dtype).eps * truth.nan_to_num().abs().max()
    return bool((close | (y.isnan() & truth.isnan())).all())


@pytest.mark.parametrize(
    ("fields", "params", "ends"),
    [
        ({}, {"columns": 128, "pair": True}, [*accumulate(RAGGED)]),
        ({"dtype": "fp16", "epilogue": "swiglu"}, {"columns": 256, "stages": 2}, [*accumulate(RAGGED)]),
        ({}, {"columns": 128}, [-5, 40, 3, 3, 9000, 2, 460, 460, -(2**31)]),
        ({"scales": "row", "epilogue": "swiglu", "k": 144}, {"columns": 128, "pair": True}, [0, 1, 131, 131, 200]),
    ],
    ids=["a pair", "swiglu", "disordered ends", "fp8"],
)
def test_every_row_is_its_experts_product(fields: dict[str, Any], params: dict[str, Any], ends: list[int]) -> None:
    """Rows are left after the last end. Two column tiles and a short last step of K, by two blocks or pairs."""
    case = GroupedCase(**{"rows": 460, "experts": len(ends), "n": 136, "k": 72} | fields)
    tile = tile_of(case, params)
    drawn, truth = given(case, ends)
    for seed in (1, 2):
        ended, y = run_grouped(grouped_library(case, tile), case, tile, drawn, 2 * tile.blocks, seed)
        assert ended == 0
        assert is_right(y, truth)


MISTAKES = {
    "the copy engine stores rows of the next expert": ("from + 32 > end", "from + 32 > end && !MISTAKE"),
    "threads store a row too many": ("end - from,", "end - from + MISTAKE,"),
    "a panel that is cut is no group of stores": (
        "tma_store_commit();", "if (!MISTAKE || row + 32 <= tile.end) tma_store_commit();",
    ),
    "tiles begin at the first expert's rows": ("row = first_row(", "row = !MISTAKE * first_row("),
    "both blocks of a pair take the same rows": ("* BLOCKS + rank)", "* BLOCKS + !MISTAKE * rank)"),
    "all experts have the first one's w": ("e * p.weight_rows", "!MISTAKE * e * p.weight_rows"),
    "an expert's last tile is not counted": ("+ kRows * BLOCKS - 1)", "+ !MISTAKE * (kRows * BLOCKS - 1))"),
    "scales of w are the first expert's": ("p.w_scales + own", "p.w_scales + (MISTAKE ? of : own)"),
    "scales of x are the first row's": ("p.x_scales + row", "p.x_scales + row * !MISTAKE"),
}  # fmt: skip
PLANTED_CASE = GroupedCase(rows=420, experts=40, n=72, k=64, scales="row")
PLANTED_ENDS = [0, 1, *[170] * 30, 171, 171, 5, *[400] * 5]
PLANTED_TILE = tile_of(PLANTED_CASE, {"columns": 128, "pair": True})


@pytest.fixture(scope="module")
def mistaken(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    macros = grouped_tiles.constants(PLANTED_CASE, PLANTED_TILE)
    folder = tmp_path_factory.mktemp("mistaken")
    return planted_source.mistaken(grouped_tiles.SOURCE, MISTAKES, ENTRY, macros, folder)


@pytest.mark.parametrize("name", [None, *MISTAKES])
def test_a_planted_mistake_is_found(mistaken: ctypes.CDLL, name: str | None) -> None:
    """By one pair, whose warps store whole panels of one tile and cut ones of the next."""
    drawn, truth = given(PLANTED_CASE, PLANTED_ENDS)
    mistaken.make(0 if name is None else list(MISTAKES).index(name) + 1)
    ended, y = run_grouped(mistaken, PLANTED_CASE, PLANTED_TILE, drawn, 2, 1)
    assert (ended == 0 and is_right(y, truth)) == (name is None)
