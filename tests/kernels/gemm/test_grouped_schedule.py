"""The scheduler of grouped.cu run thread by thread on a CPU: every row in one tile of its expert, whatever the ends."""

import ctypes
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels.cuda import nvrtc
from kernels.gemm import grouped_tiles
from tests.kernels.on_cpu import planted_source

EXPERTS, ROWS, COLUMN_PAIRS, MOST_TILES = 70, 2600, 3, 400
AROUND = """
#pragma once
#include "tiles.cuh"
namespace epilogue { using namespace tiles; enum Kind { kNone, kBias, kResidual, kSwiglu }; }
constexpr int kRows = 128, kBlocks = 2;
"""
"""What grouped_schedule.cuh needs of mainloops.cuh, whose products are PTX."""

RUN = """
extern "C" int run(const GroupedParams* p, int blocks, int* found, int most) {
  return fibers::run(blocks, 384, kBlocks, sizeof(Shared), [&] {
    Shared& s = *(Shared*)fibers::block().base;
    find_tiles(s, *p);
    if (threadIdx.x) return;
    int* to = found + blockIdx.x * most * 5;
    for (GroupedTiles tiles(s, *p); tiles.advance(); to += 5)
      to[0] = tiles.expert, to[1] = tiles.row, to[2] = tiles.row_end, to[3] = tiles.width, to[4] = tiles.column;
  });
}"""
MISTAKES = {
    "experts from the 33rd on are counted from 0": ("join(mine, before)", "MISTAKE ? mine : join(mine, before)"),
    "an end below the one before is taken": ("return max(a, b);", "return MISTAKE ? a : max(a, b);"),
    "the next expert has the first tile": ("values[middle] > than", "values[middle] > than + MISTAKE"),
    "tiles begin at the first expert's rows": ("row = first_row(", "row = !MISTAKE * first_row("),
    "an expert's last tile is not counted": ("+ kMost - 1)", "+ !MISTAKE * (kMost - 1))"),
    "both blocks take the same rows of w": ("* kBlocks + rank)", "* kBlocks + !MISTAKE * rank)"),
    "experts of one width share a place": ("mine - (other < e)", "mine - (!MISTAKE && other < e)"),
}
SIZES = [[0, 1, 7, 8, 129, 255, 256, 257, 600, 0], [40] * 65, [0] * EXPERTS, [0] * 69 + [ROWS]]
DISORDERED = [-5, 9000, 3, 256, *[-(2**31), 2**31 - 1] * 33]


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder, planted = tmp_path_factory.mktemp("scheduler"), tmp_path_factory.mktemp("planted")
    for header in (grouped_tiles.SOURCE.with_name("grouped_schedule.cuh"), nvrtc.TILES / "expert_rows.cuh"):
        shutil.copy(header, folder)
    Path(folder, "mainloops.cuh").write_text(AROUND)
    source = Path(folder, "scheduler.cu")
    source.write_text('#include "grouped_schedule.cuh"\n')
    sizes = {"STAGES": 3, "EXPERTS": EXPERTS, "PARAMS_BYTES": grouped_tiles.PARAMS.itemsize}
    macros: dict[str, Any] = {"TYPE": "bf16", "EPILOGUE": "kNone", **sizes}
    return planted_source.mistaken(source, MISTAKES, RUN, macros, planted)


def tiles_of(scheduler: ctypes.CDLL, ends: list[int], blocks: int) -> list[np.ndarray]:
    """Of each block its tiles in order: expert, first row, end, width, first row of w."""
    found = np.full((blocks, MOST_TILES, 5), -1, np.int32)
    held = np.array(ends, np.int32)
    params = np.zeros((), grouped_tiles.PARAMS)
    params["ends"], params["rows"], params["column_pairs"] = held.ctypes.data, ROWS, COLUMN_PAIRS
    pointers = [ctypes.c_void_p(each.ctypes.data) for each in (params, found)]
    assert scheduler.run(pointers[0], blocks, pointers[1], MOST_TILES) == 0
    return [each[each[:, 0] >= 0] for each in found]


def is_right(ends: list[int], blocks: list[np.ndarray]) -> bool:
    """Whether every row has every column once, in tiles of its expert alone, shared out evenly over the clusters."""
    clamped = np.maximum.accumulate(np.clip(ends, 0, ROWS))
    first = np.concatenate([[0], clamped[:-1]])
    counted: Counter[tuple[int, int]] = Counter()
    for block, tiles in enumerate(blocks):
        for expert, row, end, width, column in tiles.tolist():
            fits = first[expert] <= row < end <= clamped[expert] and end - row <= width <= 256
            if not fits or column // 128 % 2 != block % 2:
                return False
            counted.update((each, column) for each in range(row, end))
    each_once = {(row, 128 * column) for row in range(clamped[-1]) for column in range(2 * COLUMN_PAIRS)}
    lengths = [len(tiles) for tiles in blocks]
    return counted == Counter(each_once) and max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize("sizes", SIZES, ids=["ragged", "alike", "no rows", "one has all"])
def test_every_row_is_in_one_tile_of_its_expert(scheduler: ctypes.CDLL, sizes: list[int]) -> None:
    scheduler.make(0)
    ends = np.cumsum([*sizes, *[0] * (EXPERTS - len(sizes))]).tolist()
    assert is_right(ends, tiles_of(scheduler, ends, 6))


def test_disordered_ends_are_clamped(scheduler: ctypes.CDLL) -> None:
    scheduler.make(0)
    assert is_right(DISORDERED, tiles_of(scheduler, DISORDERED, 4))


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(scheduler: ctypes.CDLL, name: str) -> None:
    scheduler.make(list(MISTAKES).index(name) + 1)
    ragged = np.cumsum([3, 0, 300, *[9] * 40, 0, 520, *[1] * 25]).tolist()
    swapped = [*ragged[:50], ragged[40], *ragged[51:]]
    assert not is_right(swapped, tiles_of(scheduler, swapped, 4))
