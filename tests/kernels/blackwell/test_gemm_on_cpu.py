"""gemm_blackwell run thread by thread on a CPU, its tensor cores emulated: right answers, and the bits it is told."""

import ctypes
import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from kernels.blackwell.gemm_call import SOURCE
from kernels.blackwell.gemm_tiles import STAGE_VALUES, constants, tile_of
from kernels.ops import LinearCase, reference
from kernels.proof import inputs
from kernels.quant import block_scaled
from kernels.registry import variant
from tests.kernels.blackwell.gemm_on_cpu import ENTRY, run, run_of
from tests.kernels.on_cpu import planted_source
from tests.kernels.on_cpu.descriptor_tables import INSTRUCTION, MEMORY, bits
from tests.kernels.on_cpu.translate import library


@pytest.mark.parametrize(
    ("fields", "params"),
    [
        ({"epilogue": "residual"}, {"columns": 256, "pair": True}),
        (
            {"weights": "fp8", "scales": "row", "epilogue": "swiglu"},
            {"columns": 128, "group": 1, "pair": True, "dynamic": True},
        ),
        ({"weights": "fp8", "scales": "block32", "epilogue": "residual"}, {"columns": 128, "pair": True}),
        ({"weights": "nvfp4", "scales": "block16", "epilogue": "bias"}, {"columns": 128, "stages": 3, "dynamic": True}),
        ({"weights": "nvfp4", "scales": "block16"}, {"columns": 256, "pair": True}),
    ],
    ids=str,
)
def test_it_computes_the_product(fields: dict[str, Any], params: dict[str, Any]) -> None:
    """A short last row tile and step of K, by two blocks or the dynamic scheduler's clusters."""
    case = LinearCase(**{"m": 300, "n": 328, "k": 608} | fields)
    given = inputs.draw(case, "cpu", 1)
    scaled = variant("gemm_blackwell_scaled")
    truth = reference.compute(case, scaled.rounded(case, params, given) if case.scales else given)[0]
    for seed in (1, 2):
        ended, y = run(case, tile_of(case, params), given, 2, seed)
        assert ended == 0
        assert is_right(y, truth)


def is_right(y: Tensor, truth: Tensor) -> bool:
    """Whether y is the truth, rounded: within one step of its dtype at the largest value."""
    return bool((y.double() - truth).abs().max() <= torch.finfo(y.dtype).eps * truth.abs().max())


MISTAKES = {
    "the second block loads the first half of w": ("tile.rank * kOwn", "tile.rank * !MISTAKE * kOwn"),
    "the second block loads the first one's scales of x": ("tile.row / kRows);",
        "tile.row / kRows - MISTAKE * tile.rank);"),
    "both blocks send the scales of the first half of w": ("kRowTiles + kBoth * tile.rank)",
        "kRowTiles + kBoth * tile.rank * !MISTAKE)"),
    "both blocks send scales of w to one place": ("+ kBoth * tile.rank * kScaleBytes",
        "+ kBoth * tile.rank * kScaleBytes * !MISTAKE"),
    "scales of w stay in the block that loads them": ("tma_load_both<BLOCKS, kBoth>(",
        "(MISTAKE ? tma_load_both<BLOCKS, false> : tma_load_both<BLOCKS, kBoth>)("),
    "scales of x are those of the step before": ("maps.x_scales, full, 0, step",
        "maps.x_scales, full, 0, (step - (MISTAKE && step))"),
    "scales of x reach the first block's TMEM alone": ("tmem_copy_scales<BLOCKS>(x_scales",
        "(MISTAKE ? tmem_copy_scales<1> : tmem_copy_scales<BLOCKS>)(x_scales"),
    "scales of w reach the first block's TMEM alone": ("tmem_copy_scales<BLOCKS>(w_scales",
        "(MISTAKE ? tmem_copy_scales<1> : tmem_copy_scales<BLOCKS>)(w_scales"),
    "all rows of w have the scales of the last 128": ("kRowTiles + t) *", "kRowTiles + t * !MISTAKE) *"),
    "products take another instruction's scales": ("KIND == kNvfp4 ? i : 0", "KIND == kNvfp4 ? i ^ MISTAKE : 0"),
}  # fmt: skip
PLANTED_CASE = LinearCase(m=256, n=256, k=512, weights="nvfp4", scales="block16")
PLANTED_TILE = tile_of(PLANTED_CASE, {"columns": 256, "pair": True})


@pytest.fixture(scope="module")
def mistaken(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    macros = constants(PLANTED_CASE, PLANTED_TILE)
    return planted_source.mistaken(SOURCE, MISTAKES, ENTRY, macros, tmp_path_factory.mktemp("mistaken"))


@pytest.mark.parametrize("name", [None, *MISTAKES])
def test_a_planted_mistake_is_found(mistaken: ctypes.CDLL, name: str | None) -> None:
    """In a pair with block scales: who loads and copies which scales."""
    given = inputs.draw(PLANTED_CASE, "cpu", 1)
    rounded = variant("gemm_blackwell_scaled").rounded(PLANTED_CASE, {}, given)
    mistaken.make(0 if name is None else list(MISTAKES).index(name) + 1)
    ended, y = run_of(mistaken, PLANTED_CASE, PLANTED_TILE, given, 2, 1)
    assert (ended == 0 and is_right(y, reference.compute(PLANTED_CASE, rounded)[0])) == (name is None)


VALUES: dict[str, tuple[str, dict[str, int]]] = {
    "kBf16": ("f16", {"sum": 1, "a": 1, "b": 1}), "kF16": ("f16", {"sum": 1}), "kE4m3": ("f16", {"sum": 1}),
    "kMxfp8": ("scaled", {"type": 1}), "kNvfp4": ("scaled", {"a": 1, "b": 1}),
}  # fmt: skip


def test_descriptors_have_the_bits_of_the_instruction_set() -> None:
    shape = LinearCase(m=128, n=128, k=64, epilogue="residual")
    told = library(SOURCE, ENTRY, constants(shape, tile_of(shape, {"columns": 256, "pair": True})))
    told.instruction.restype = ctypes.c_uint
    told.operand.restype = told.scales.restype = ctypes.c_ulonglong
    shapes = itertools.product(enumerate(STAGE_VALUES), (128, 256), (128, 256), range(4))
    for (number, kind), rows, columns, byte in shapes:
        table, values = VALUES[kind]
        ids = {"a_id": byte, "b_id": byte} if kind == "kMxfp8" else {}
        wanted = bits(values | ids | {"m": rows // 16, "n": columns // 8}, INSTRUCTION[table])
        assert told.instruction(number, rows, columns, byte if ids else 0) == wanted, kind
    for address in (0, 1024, 99_328, 229_376):
        at = {"address": address // 16, "version": 1}
        assert told.operand(address) == bits(at | {"stride": 1024 // 16, "swizzle": 2}, MEMORY)
        assert told.scales(address) == bits(at | {"stride": 8 * 16 // 16}, MEMORY)


def test_scales_lie_in_tiles_as_cublas_documents() -> None:
    scales = torch.randint(0, 256, (300, 20), dtype=torch.uint8)
    tiles = block_scaled.in_tiles(scales, rows=256, columns=16)
    assert tiles.shape == (4, 8, 512)
    for r, c in itertools.product(range(512), range(32)):
        held = int(tiles[r // 128, c // 4, r % 32 * 16 + r % 128 // 32 * 4 + c % 4])
        assert held == (int(scales[r, c]) if r < 300 and c < 20 else 0)


def test_mxfp8_keeps_values_within_its_range() -> None:
    x = torch.randn(64, 96) * torch.logspace(-30, 30, 64)[:, None]
    x[0] = 0
    held = block_scaled.rounded(x, "block32")
    back = block_scaled.dequantise(held, "block32")
    largest = x.unflatten(1, (-1, 32)).abs().amax(2).repeat_interleave(32, 1)
    assert held.values.float().abs().max() <= 448
    assert ((back - x).abs() <= largest / 16).all()
    assert torch.equal(block_scaled.dequantise(block_scaled.rounded(back, "block32"), "block32"), back)
