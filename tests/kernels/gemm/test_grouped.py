"""Products of a mixture of experts: the cases, what the variants serve, that the kernel compiles and is right."""

import ctypes
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kernels.cases import check_cases
from kernels.cuda import nvrtc
from kernels.cuda.occupancy import MAX_SHARED_BYTES
from kernels.gemm import grouped_few_call, grouped_hopper, grouped_tiles
from kernels.gemm.grouped_call import W_BOX, rows_apart, view_by_columns
from kernels.hardware import GPUS
from kernels.ops import GroupedCase
from kernels.proof import gate, inputs
from kernels.registry import variant
from tests.kernels.compiling import compile_log, resources
from tests.kernels.on_cpu import planted_source


def case(**fields: Any) -> GroupedCase:
    return GroupedCase(**{"rows": 300, "experts": 4, "n": 264, "k": 320} | fields)


@pytest.mark.parametrize(("epilogue", "experts", "tiled"), [("swiglu", 128, True), ("none", 8, False)])
def test_it_compiles_without_spills(epilogue: str, experts: int, tiled: bool) -> None:
    macros, _ = grouped_tiles.constants(case(experts=experts, epilogue=epilogue), tiled)
    used = resources(log := compile_log(grouped_tiles.SOURCE, macros))
    assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0)
    assert "serialized" not in log


@pytest.mark.parametrize(("weights", "rows", "epilogue"), [("int8", 8, "swiglu"), ("mxfp4", 400, "swigluoai")])
def test_products_of_few_rows_compile_without_spills(weights: str, rows: int, epilogue: str) -> None:
    few = case(rows=rows, experts=128, epilogue=epilogue, weights=weights)
    used = resources(compile_log(grouped_few_call.SOURCE, grouped_few_call.constants(few, 4)))
    assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0)


@pytest.mark.parametrize("epilogue", ["none", "swiglu"])
def test_any_number_of_experts_has_room(epilogue: str) -> None:
    for experts in range(1, grouped_hopper.MAX_EXPERTS + 1):
        result, shared_bytes = grouped_tiles.constants(case(experts=experts, epilogue=epilogue))
        assert result["STAGES"] >= 3
        assert shared_bytes <= MAX_SHARED_BYTES


def test_rows_fall_to_experts_in_order_and_full_pairs_are_tried_first() -> None:
    assert variant("grouped_blackwell").space(case(rows=8192, n=4096))[0]["pair"]
    assert not variant("grouped_blackwell").space(case(rows=400, n=14_336))[0]["pair"]
    drawn = inputs.draw(case(rows=40, experts=64), "cpu", 5)
    ends = drawn["offs"].tolist()
    assert ends == sorted(ends)
    assert ends[-1] == 40
    assert len(set(ends)) < 64


def test_a_box_of_tiles_holds_the_rows_that_the_descriptor_says() -> None:
    """8 rows to the next 8 are 128 bytes, 8 columns to the next 8 COLUMNS · 16, a row within them 16."""
    w = torch.randn(3, 160, 96, generator=torch.Generator().manual_seed(2)).bfloat16()
    packed = variant("grouped_hopper").pack(case(n=160, k=96), {"tiled": True}, w)
    apart = torch.nn.functional.pad(packed.flatten(1), (0, 5 * 16 * 96))[:, : packed[0].numel()].unflatten(
        1, packed.shape[1:]
    )
    assert rows_apart(apart) == 15
    expert, column, k = 1, 32, 16
    first = k // 8, rows_apart(apart) * expert + column // 16, 0
    slices = [slice(begin, begin + size) for begin, size in zip(first, W_BOX, strict=True)]
    shared = view_by_columns(apart)[*slices].flatten()
    rows, columns = torch.arange(grouped_tiles.COLUMNS)[:, None], torch.arange(64)
    at = rows // 8 * 128 + columns // 8 * grouped_tiles.COLUMNS * 16 + rows % 8 * 16 + columns % 8 * 2
    assert torch.equal(shared[at // 2], w[expert, column : column + 128, k : k + 64])


@pytest.mark.parametrize("shape", check_cases("grouped", cpu=True), ids=lambda each: each.key)
def test_the_loop_is_right_on_a_cpu(shape: GroupedCase) -> None:
    report = gate.check(variant("torch_grouped_loop"), shape, "cpu")
    assert report.passed, report.sentence


@pytest.mark.gpu
@pytest.mark.parametrize("shape", check_cases("grouped", cpu=False), ids=lambda each: each.key)
def test_it_is_right(shape: GroupedCase) -> None:
    blackwell = torch.cuda.get_device_capability() == (10, 0)
    by_hand = variant("grouped_blackwell" + "_fp8" * bool(shape.scales) if blackwell else "grouped_hopper")
    if by_hand.serves(shape, GPUS["b200" if blackwell else "h200"]) is None:
        whole = not blackwell and shape.weight_rows % 16 == shape.k % 16 == 0
        for params in (*by_hand.space(shape), *([{"tiled": True}] if whole else [])):
            report = gate.check(by_hand, shape, "cuda", params)
            assert report.passed, f"{params}: {report.sentence}"


@pytest.mark.gpu
def test_nan_and_infinity_stay_in_their_rows() -> None:
    shape = case(n=64, k=64)
    drawn = inputs.draw(shape, "cuda", 1)
    drawn["x"][7, 3], drawn["x"][200, 5] = float("nan"), float("inf")
    y = variant("grouped_hopper").build(shape, {})(**drawn)
    assert y[7].isnan().all()
    assert not y[200].isfinite().any()
    assert int((~y.isfinite()).any(dim=1).sum()) == 2


@pytest.mark.gpu
def test_experts_of_every_size_are_right() -> None:
    """Each width that a tile can have, full and with rows missing, one tile and several; experts without rows."""
    sizes = [0, 1, *(size - missing for size in range(8, 264, 8) for missing in (0, 3)), 0, 257, 511, 700, 1030, 0]
    shape = case(rows=sum(sizes), experts=len(sizes), n=136, k=72)
    drawn = inputs.draw(shape, "cuda", 1)
    ends = torch.tensor(sizes, device="cuda").cumsum(0).to(torch.int32)
    y = variant("grouped_hopper").build(shape, {})(drawn["x"], drawn["w"], ends)
    rows = drawn["x"].double().split(sizes)
    expected = torch.cat([x @ w.t() for x, w in zip(rows, drawn["w"].double(), strict=True)])
    torch.testing.assert_close(y.double(), expected, rtol=2**-8, atol=1e-5)


@pytest.mark.gpu
def test_disordered_ends_stay_inside_the_rows() -> None:
    shape = case(rows=256, n=64, k=64)
    product = variant("grouped_hopper").build(shape, {})
    drawn = inputs.draw(shape, "cuda", 1)
    for ends in ([-5, 9000, 3, 256], [2**31 - 1] * 4, [-(2**31)] * 4):
        product(drawn["x"], drawn["w"], torch.tensor(ends, dtype=torch.int32, device="cuda"))
    torch.cuda.synchronize()
    with pytest.raises(ValueError, match="offs is"):
        product(drawn["x"], drawn["w"], drawn["offs"].long())


EXPERTS, ROWS, COLUMN_PAIRS, MAX_TILES = 70, 2600, 3, 400
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
    schedule = np.full((blocks, MAX_TILES, 5), -1, np.int32)
    row_ends = np.array(ends, np.int32)
    params = np.zeros((), grouped_tiles.PARAMS)
    params["offs"], params["rows"], params["column_pairs"] = row_ends.ctypes.data, ROWS, COLUMN_PAIRS
    pointers = [ctypes.c_void_p(value.ctypes.data) for value in (params, schedule)]
    assert scheduler.run(pointers[0], blocks, pointers[1], MAX_TILES) == 0
    return [item[item[:, 0] >= 0] for item in schedule]


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
            counted.update((index, column) for index in range(row, end))
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
