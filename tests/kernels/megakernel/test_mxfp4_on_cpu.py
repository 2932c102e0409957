"""weights.cuh run lane by lane on a CPU: experts in MXFP4 times inputs are the products of what their bytes say."""

import ctypes

import numpy as np
import pytest
import torch

from kernels.megakernel.host import device
from kernels.megakernel.program.exchange import columns_of
from kernels.megakernel.program.weights import CHUNK_BLOCKS, MXFP4
from tests.kernels.megakernel.unit_operands import expected_products, operands
from tests.kernels.on_cpu.translate import library

CHUNKS = 2
ENTRY = """
extern "C" int run(const char* chunk, const char* input, int tiles, float* out) {
  return fibers::run(1, WARPS * 32, 1, 0, [&] {
    Sums sum = {};
    for (int c = 0; c * Expert::kChunkTiles < tiles; c++) {
      const int left = tiles - c * Expert::kChunkTiles;
      Codes<Expert> codes;
      Inputs<Expert> x;
      load_codes(codes, chunk + c * kChunkBlocks * Expert::kBlock, left);
      load_inputs<false>(x, input + c * kChunkInput<Expert>, c, left);
      multiply(sum, codes, x, left);
    }
    leave_sums<Expert>(((float(*)[16 * BATCH])out)[threadIdx.x / 32], sum, {kUndo<Expert>, kUndo<Expert>}, {1.f, 1.f});
  });
}"""


@pytest.mark.parametrize("batch", [1, 2, 3, 6])
def test_products_are_those_of_the_codes(batch: int) -> None:
    """Two chunks, the second a part; rows of tiny, large and zero scales, and inputs of unequal sizes."""
    tiles = MXFP4.chunk_tiles + 52
    chance = torch.Generator().manual_seed(batch)
    matrix, x = torch.randn(16, tiles * 16, generator=chance), torch.randn(batch, tiles * 16, generator=chance)
    matrix[3] *= 2.0**-60
    matrix[11] *= 2.0**8
    matrix[5, 64:128] = 0
    x[-1] *= 50
    macros = {
        "WEIGHT_BITS": 16, "HEAD_BITS": 16, "EXPERT_BITS": 4, "INTEGERS": 0, "SCALED_TILES": 0, "ZEROS": 0,
        "CHUNK_BLOCKS": CHUNK_BLOCKS, "WARPS": device.WARPS, "BATCH": batch, "INPUT_LENGTH": tiles * 16,
    }  # fmt: skip
    kernel = library(device.SOURCES / "weights.cuh", ENTRY, macros)
    stream, inputs = operands(matrix, x, MXFP4)
    memory = torch.full((CHUNKS * MXFP4.chunk_tiles * 16 * columns_of(batch),), torch.nan, dtype=torch.bfloat16)
    memory[: inputs.numel()] = inputs.flatten()
    out = torch.full((device.WARPS, batch, 16), torch.nan)
    pointers = [ctypes.c_void_p(value.data_ptr()) for value in (stream, memory, out)]
    assert kernel.run(pointers[0], pointers[1], tiles, pointers[2]) == 0
    expected, _ = expected_products(stream, x, MXFP4)
    sums = out.double().sum(0).T.numpy()
    assert (np.abs(sums - expected) <= 1e-5 * np.abs(expected).max(axis=1, keepdims=True)).all()
    rows = np.abs(expected).max(axis=1)
    assert rows[3] < 2.0**-40
    assert rows[11] > 2.0**8
