"""gemm_blackwell and grouped_blackwell run thread by thread on a CPU, tensor cores and copy engine emulated."""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.blackwell import grouped_call, grouped_tiles
from kernels.blackwell.gemm_call import SOURCE, parameters, parts
from kernels.blackwell.gemm_tiles import Tile, constants
from kernels.dtypes import DTYPES
from kernels.ops import GroupedCase, LinearCase
from kernels.registry import variant
from tests.kernels.on_cpu.noted import NOTES, Note, notes
from tests.kernels.on_cpu.translate import library

LARGER = 1024
"""Bytes by which a block's barriers are larger here."""

MATRIX = np.dtype([("at", "u8"), ("rows", "i4"), ("columns", "i4"), ("size", "i4")], align=True)
"""`struct Matrix` below: an operand, y, or tiles of scales, of which rows and columns count tiles."""

ENTRY = (
    """
struct Matrix { const unsigned short* at; int rows, columns, size; };
struct Given { Matrix x, w, y, x_scales, w_scales; };
extern "C" int run(const Given* given, const Params* p, int blocks, long shared_bytes, unsigned seed) {
  const auto map = [](const Matrix& of, int box, int wide = 0) {
    return TensorMap{of.at, of.rows, of.columns, box, of.size, 0, wide};
  };
  const Maps maps{map(given->x, kRows), map(given->w, BN / BLOCKS), map(given->y, 32),
                  map(given->x_scales, 1, kScaleTiles), map(given->w_scales, kBoth ? 1 : kRowTiles, kScaleTiles)};
  fibers::asynchronous = fibers::noting = true, fibers::draw = seed, fibers::notes.clear();
  fibers::refusals = seed % 2 ? 0 : 3;
  return fibers::run(blocks, 32 * (kEpilogueWarps + 2), BLOCKS, shared_bytes, [&] { gemm(maps, *p); });
}
extern "C" unsigned instruction(int kind, int rows, int columns, int byte) {
  return instruction_descriptor((MatrixKind)kind, rows, columns, byte);
}
extern "C" unsigned long long operand(unsigned address) { return operand_descriptor(address); }
extern "C" unsigned long long scales(unsigned address) { return scales_descriptor(address); }"""
    + NOTES
)


def run(case: LinearCase, tile: Tile, given: dict[str, Tensor], blocks: int, seed: int) -> tuple[int, Tensor]:
    """The status of a run of the kernel, 0 where it ended, and y. Operands and params are those of a launch."""
    return run_of(library(SOURCE, ENTRY, constants(case, tile)), case, tile, given, blocks, seed)


def run_of(
    kernel: ctypes.CDLL, case: LinearCase, tile: Tile, given: dict[str, Tensor], blocks: int, seed: int
) -> tuple[int, Tensor]:
    """`run` of a changed source. Where the scheduler is dynamic, the grid has the blocks of all tiles."""
    offered = variant("gemm_blackwell" if case.scales is None else "gemm_blackwell_scaled")
    x, w = parts(case, case.passed(given)["x"]), parts(case, offered.pack(case, {}, given["w"]))
    y = torch.full((case.m, case.n), float("nan"), dtype=DTYPES[case.dtype])
    params = parameters(case, tile, x, w, given.get("bias"), given.get("residual"))
    matrices = [(value, *value.shape, value.element_size()) for value in (x[0], w[0], y)]
    matrices += [(value, *value.shape[:2], 1) for value in (x[2], w[2]) if value is not None]
    if tile.dynamic:
        blocks = tile.blocks * int(params["row_tiles"] * params["column_tiles"])
    return launched(kernel, tile, matrices, params, blocks, seed), y


def launched(
    kernel: ctypes.CDLL, tile: Tile, matrices: Sequence[tuple[Any, ...]], params: np.ndarray, blocks: int, seed: int
) -> int:
    """The status of a run with the maps of these matrices: each a tensor and what `Matrix` says of it."""
    maps = np.zeros(5, MATRIX)
    for map, (each, *shape) in zip(maps, matrices, strict=False):
        map["at"], map["rows"], map["columns"], map["size"] = each.data_ptr(), *shape
    status: int = kernel.run(
        maps.ctypes.data_as(ctypes.c_void_p), params.ctypes.data_as(ctypes.c_void_p), blocks,
        ctypes.c_long(tile.shared_bytes + LARGER), seed,
    )  # fmt: skip
    return status


def run_grouped(
    kernel: ctypes.CDLL, case: GroupedCase, tile: Tile, given: dict[str, Tensor], blocks: int, seed: int
) -> tuple[int, Tensor]:
    """`run_of` of grouped.cu."""
    offered = variant("grouped_blackwell_fp8" if case.scales else "grouped_blackwell")
    x, of_x = grouped_call.parts(case, case.passed(given)["x"])
    w, of_w = grouped_call.parts(case, offered.pack(case, {}, given["w"]))
    y = torch.full((len(x), case.n), float("nan"), dtype=DTYPES[case.dtype])
    params = grouped_call.parameters(case, tile, len(x), given["offs"], (of_x, of_w))
    params["y"] = y.data_ptr()
    matrices = [(value, *value.shape, value.element_size()) for value in (x, w.view(-1, case.k), y)]
    return launched(kernel, tile, matrices, params, blocks, seed), y


def grouped_library(case: GroupedCase, tile: Tile) -> ctypes.CDLL:
    """grouped.cu for a case."""
    return library(grouped_tiles.SOURCE, ENTRY, grouped_tiles.constants(case, tile))


def noted(case: LinearCase | GroupedCase, tile: Tile, given: dict[str, Tensor]) -> list[Note]:
    """What the first lanes of one cluster's warps did in a run."""
    if isinstance(case, GroupedCase):
        kernel = grouped_library(case, tile)
        ended, _ = run_grouped(kernel, case, tile, given, tile.blocks, 1)
    else:
        kernel = library(SOURCE, ENTRY, constants(case, tile))
        ended, _ = run_of(kernel, case, tile, given, tile.blocks, 1)
    if ended:
        raise RuntimeError("the run did not end")
    return notes(kernel)
