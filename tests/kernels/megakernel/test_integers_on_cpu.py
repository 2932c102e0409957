"""integers.cuh run lane by lane on a CPU: integers times inputs in fixed point are right within their bound."""

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from kernels.megakernel.host import device
from kernels.megakernel.program.exchange import columns_of
from kernels.megakernel.program.weights import ZEROS, Format, fitting_chunk, format_of
from tests.kernels.megakernel.unit_operands import expected_products, operands
from tests.kernels.on_cpu.translate import library

CHUNKS = 2
ENTRY = """
template <bool KEPT>
void product(const char* chunk, char* input, int tiles, float* out) {
  prepare_inputs<Own, CHUNKS * Own::kChunkTiles, !KEPT>(input, tiles);
  Sums sum = {};
  for (int c = 0; c * Own::kChunkTiles < tiles; c++, chunk += kChunkBlocks * Own::kBlock) {
    Codes<Own> codes;
    Inputs<Own> x;
    load_codes(codes, chunk, tiles - c * Own::kChunkTiles);
    load_inputs<KEPT>(x, input + c * kChunkInput<Own>, c, tiles - c * Own::kChunkTiles);
    multiply(sum, codes, x, tiles - c * Own::kChunkTiles);
  }
  leave_sums<Own>(((float(*)[16 * BATCH])out)[threadIdx.x / 32], sum, {}, {});
}
extern "C" int run(const char* stream, char* input, int tiles, float* out, int kept) {
  const auto chosen = kept ? product<true> : product<false>;
  return fibers::run(1, WARPS * 32, 1, 0, [&] { chosen(stream, input, tiles, out); });
}"""


def products(form: Format, matrix: torch.Tensor, x: torch.Tensor, kept: bool) -> tuple[Any, np.ndarray]:
    """The stream, and its products [16, batch] with x as the kernel's warps compute them."""
    batch, tiles = len(x), matrix.shape[1] // 16
    length = CHUNKS * form.chunk_tiles * 16
    macros = {
        "WEIGHT_BITS": form.bits, "HEAD_BITS": form.bits, "EXPERT_BITS": form.bits, "INTEGERS": 1,
        "SCALED_TILES": form.scaled, "ZEROS": ZEROS.index(form.zeros), "CHUNK_BLOCKS": form.chunk_blocks,
        "WARPS": device.WARPS, "BATCH": batch, "INPUT_LENGTH": length, "CHUNKS": CHUNKS,
    }  # fmt: skip
    kernel = library(device.SOURCES / "integers.cuh", ENTRY, macros)
    stream, inputs = operands(matrix, x, form)
    memory = torch.full((length * columns_of(batch) * 9 // 8,), torch.nan, dtype=torch.bfloat16)
    memory[: inputs.numel()] = inputs.flatten()
    out = torch.full((device.WARPS, batch, 16), torch.nan)
    pointers = [ctypes.c_void_p(value.data_ptr()) for value in (stream, memory, out)]
    assert kernel.run(pointers[0], pointers[1], tiles, pointers[2], int(kept)) == 0
    return stream, out.double().sum(0).T.numpy()


@pytest.mark.parametrize(
    ("weights", "batch", "hidden", "kept"),
    [
        ("int8", 1, 2048, False), ("int8", 3, 1536, True), ("int8", 6, 2048, False), ("int4", 1, 2048, True),
        ("int4", 2, 1536, False), ("int4", 6, 2048, True), ("int4_zero", 1, 2048, False), ("int4_zero", 6, 2048, True),
        ("int4_minimum", 2, 1536, True),
    ],
)  # fmt: skip
def test_products_are_right_within_the_bound_of_their_inputs(weights: str, batch: int, hidden: int, kept: bool) -> None:
    """Whole chunks and a part with half a block; groups with one large element, of zeros, of tiny and of equal ones."""
    form = replace(format_of(weights), chunk_blocks=fitting_chunk(weights, hidden // 16))
    for tiles in (hidden // 16, form.chunk_tiles + 19, 5):
        chance = torch.Generator().manual_seed(tiles)
        matrix = torch.randn(16, tiles * 16, generator=chance)
        x = torch.randn(batch, tiles * 16, generator=chance)
        x[:, 3] = 700.0
        x[-1, 32:64] = 0
        x[0, 64:80] *= 2.0**-120
        x[:, 40:48] = -1.9921875  # the largest bf16 under 2, whose high byte would be 128
        stream, result = products(form, matrix, x, kept)
        expected, off = expected_products(stream, x, form)
        assert (np.abs(result - expected) <= off + 1e-6 * np.abs(expected) + 1e-5).all()
        assert (off < 0.02 * np.abs(expected).max()).all()


@pytest.mark.parametrize(("weights", "most"), [("int8", 127.0), ("int4", -8.0)])
def test_products_of_inputs_that_the_fixed_point_holds_are_exact(weights: str, most: float) -> None:
    """The largest codes and 1, inputs from the largest of their group to a 128th of it."""
    form = format_of(weights)
    matrix = torch.full((16, form.chunk_tiles * 16), most)
    matrix[:, 1::2] = torch.randn(16, form.chunk_tiles * 8, generator=torch.Generator().manual_seed(0)).sign()
    x = torch.zeros(1, form.chunk_tiles * 16)
    x[:, 1::2] = torch.tensor([1.984375, -0.015625, 0.9921875, 0.0234375]).repeat(form.chunk_tiles * 2)
    stream, result = products(form, matrix, x, kept=False)
    np.testing.assert_array_equal(result, expected_products(stream, x, form)[0])


def test_an_input_that_is_not_finite_makes_its_products_nan() -> None:
    form = format_of("int8")
    x = torch.ones(2, form.chunk_tiles * 16)
    x[1, 17] = torch.inf
    _, result = products(form, torch.full((16, form.chunk_tiles * 16), 127.0), x, kept=False)
    assert np.isnan(result[:, 1]).all()
    assert (result[:, 0] == 127 * form.chunk_tiles * 16).all()
