"""The source of gemm_blackwell run thread by thread on a CPU, its tensor cores and copy engine emulated."""

import ctypes

import torch
from torch import Tensor

from kernels.dtypes import DTYPES
from kernels.gemm.blackwell_call import SOURCE, parameters, parts
from kernels.gemm.blackwell_plan import Tile, constants
from kernels.ops import LinearCase
from kernels.registry import variant
from tests.kernels.on_cpu.noted import NOTES, Note, notes
from tests.kernels.on_cpu.translate import library

LARGER = 1024
"""Bytes by which a block's barriers are larger here."""

ENTRY = (
    """
extern "C" int run(const void* x, int m, int x_columns, const void* w, int n, int w_columns, int size, void* y,
                   const Params* p, int blocks, long shared_bytes, unsigned seed) {
  const TensorMap of_x{(const unsigned short*)x, m, x_columns, kRows, size};
  const TensorMap of_w{(const unsigned short*)w, n, w_columns, BN / BLOCKS, size};
  const TensorMap of_y{(const unsigned short*)y, m, p->columns, 32, 2};
  fibers::asynchronous = fibers::noting = true, fibers::draw = seed, fibers::notes.clear();
  return fibers::run(blocks, 32 * (kEpilogueWarps + 2), BLOCKS, shared_bytes, [&] { gemm(of_x, of_w, of_y, *p); });
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
    kernel = library(SOURCE, ENTRY, constants(case, tile))
    offered = variant("gemm_blackwell" if case.scales is None else "gemm_blackwell_scaled")
    x, w = parts(case, case.passed(given)["x"]), parts(case, offered.pack(case, {}, given["w"]))
    y = torch.full((case.m, case.n), float("nan"), dtype=DTYPES[case.dtype])
    params = parameters(case, tile, x, w, given.get("bias"), given.get("residual"))
    (m, x_columns), (n, w_columns), size = x[0].shape, w[0].shape, x[0].element_size()
    status = kernel.run(
        _at(x[0]), m, x_columns, _at(w[0]), n, w_columns, size, _at(y), params.ctypes.data_as(ctypes.c_void_p), blocks,
        ctypes.c_long(tile.shared_bytes + LARGER), seed,
    )  # fmt: skip
    return status, y


def noted(case: LinearCase, tile: Tile, given: dict[str, Tensor]) -> list[Note]:
    """What the first lanes of one cluster's warps did in a run."""
    ended, _ = run(case, tile, given, tile.blocks, 1)
    if ended:
        raise RuntimeError("the run did not end")
    return notes(library(SOURCE, ENTRY, constants(case, tile)))


def _at(tensor: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())
