"""Weights in lower precision: rounded as well as their formats allow, held exactly, packed and unpacked exactly."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from kernels.megakernel.host.pack import quantise, streams
from kernels.megakernel.program.weights import FORMATS, format_of
from kernels.quant import absmax
from kernels.quant.formats import E2M1, INT4
from kernels.quant.gf2 import gf2_inverse
from kernels.quant.quantised_matrix import (
    QUANTISERS,
    STORED_SCALES,
    STORED_ZEROS,
    fp8_rows,
    in_pairs,
    int4_groups,
    int4_minimum,
    int8_groups,
    nvfp4_power_of_two,
    rounded,
    stored_form,
)
from tests.kernels.megakernel.interpreter.units import e2m1_values, e4m3_values, matrix_of_unit

LOWER = sorted(QUANTISERS)


def matrix(rows: int, columns: int, seed: int, spread: float = 2.0) -> torch.Tensor:
    """Random weights whose rows and columns differ in size by powers of `spread`."""
    chance = torch.Generator().manual_seed(seed)
    sizes = spread ** torch.randn(rows, 1, generator=chance) * spread ** torch.randn(1, columns, generator=chance)
    return (torch.randn(rows, columns, generator=chance) * sizes).to(torch.bfloat16)


def test_codes_stand_for_the_values_of_their_formats() -> None:
    codes = np.arange(256, dtype=np.uint8)
    numbers = codes[(codes & 0x7F) != 0x7F]
    theirs = torch.from_numpy(numbers).view(torch.float8_e4m3fn).float().numpy()
    np.testing.assert_array_equal(e4m3_values(numbers), theirs)
    np.testing.assert_array_equal(e2m1_values(codes[:16]), [*E2M1, *(-item for item in E2M1)])


@given(
    st.integers(1, 3), st.integers(1, 300), st.integers(0, 5), st.integers(0, 99),
    st.sampled_from([(name, blocks) for name in sorted(FORMATS) for blocks in (24, 32)]),
)  # fmt: skip
@settings(max_examples=40, deadline=None, derandomize=True)
def test_a_stream_holds_exactly_the_rounded_matrix(tiles, k_tiles, k_tile, seed, how):
    name, blocks = how
    form = replace(FORMATS[name], chunk_blocks=blocks)
    k_tile -= k_tile % form.together
    weight = matrix(16 * tiles, 16 * (k_tile + k_tiles), seed)
    packed = streams(quantise(weight, name), form, k_tile, k_tiles).numpy()
    assert packed.shape == (tiles, form.unit_bytes(k_tiles))
    result = np.concatenate([matrix_of_unit(unit, k_tiles, form) for unit in packed])
    np.testing.assert_array_equal(result, rounded(weight, name, torch.float32)[:, 16 * k_tile :].numpy())


@pytest.mark.parametrize("name", FORMATS)
def test_bytes_are_those_of_the_format(name: str) -> None:
    form = format_of(name)
    weights = 16 * 16 * form.chunk_tiles
    share = {
        "bf16": 2.0, "int8": 1 + 2 / 32, "fp8": 1.0, "fp8_layers": 1.0, "nvfp4": 0.5 + 1 / 16, "int4": 0.5 + 2 / 32,
        "int4_zero": 0.5 + 4 / 64, "int4_minimum": 0.5 + 4 / 32,
    }[name]  # fmt: skip
    assert form.weight_bytes == share
    assert form.unit_bytes(form.chunk_tiles) == share * weights + form.header
    assert form.slot_bytes % 128 == 0
    assert form.unit_bytes(1) % 16 == 0


def test_fp8_rounds_to_the_nearest_and_its_values_to_themselves() -> None:
    weight = matrix(32, 64, 1)
    codes = fp8_rows(weight)
    scaled = weight.float() / codes.row_scales[:, None]
    assert ((scaled.abs().amax(dim=1) <= 448) & (scaled.abs().amax(dim=1) > 224)).all()
    grid = torch.from_numpy(e4m3_values(np.arange(127, dtype=np.uint8)))
    grid = torch.cat([-grid, grid])
    nearest = (scaled[..., None] - grid).abs().amin(-1) * codes.row_scales[:, None]
    assert torch.equal((codes.values().float() - weight.float()).abs(), nearest)
    once = rounded(matrix(32, 64, 3), "fp8")
    assert torch.equal(rounded(once, "fp8"), once)


def test_nvfp4_rounds_no_worse_than_the_plain_recipe() -> None:
    """Scales that bring the largest of each block to 6, and the nearest values."""
    weight = matrix(64, 256, 2)
    blocks = weight.float().unflatten(1, (-1, 16))
    result = nvfp4_power_of_two(weight)
    scale = (blocks.abs().amax(-1) / 6 / result.row_scales[0]).clamp(2**-6, 448).to(torch.float8_e4m3fn).float()
    scale = scale[..., None] * result.row_scales[0]
    grid = torch.tensor([*E2M1, *(-item for item in E2M1)])
    plain = (blocks[..., None] / scale[..., None] - grid).abs().amin(-1) * scale
    own = (result.values().float() - weight.float()).unflatten(1, (-1, 16))
    assert (own.norm(dim=-1) <= plain.norm(dim=-1) * (1 + 1e-6)).all()
    assert own.norm() < 0.98 * plain.norm()


def test_int8_rounds_to_the_nearest_by_scales_that_cut_nothing_off() -> None:
    """Each weight is within half a step; a step is the largest of 32 over 127, in float16, rounded up."""
    weight = matrix(32, 80, 6).float()
    result = int8_groups(weight)
    assert result.block_scales.shape == (32, 3)
    steps = result.block_scales.float().repeat_interleave(32, dim=1)[:, :80]
    largest = torch.nn.functional.pad(weight, (0, 16)).abs().unflatten(1, (-1, 32)).amax(-1)
    assert ((result.block_scales.float() * 127 >= largest) & (result.block_scales.float() * 126.8 <= largest)).all()
    assert ((result.values(torch.float32) - weight).abs() <= 0.5001 * steps).all()
    assert torch.equal(result.columns(32, 48).values(), result.values()[:, 32:])
    with pytest.raises(ValueError, match="16 lies within 32 columns that share a scale"):
        result.columns(16, 32)


def test_int4_rounds_no_worse_than_q4_0_and_keeps_the_codes_of_a_file() -> None:
    """Q4_0's scale brings the largest of 32 to -8."""
    weight = matrix(32, 80, 6, spread=1.5).float()
    groups = torch.nn.functional.pad(weight, (0, 16)).unflatten(1, (-1, 32))
    step = (groups.gather(-1, groups.abs().argmax(-1, keepdim=True)) / -8).half().float()
    plain = (groups / step).round().clamp(-8, 7) * step - groups
    quantised_groups = int4_groups(weight)
    own = torch.nn.functional.pad(quantised_groups.values(torch.float32) - weight, (0, 16)).unflatten(1, (-1, 32))
    assert (own.norm(dim=-1) <= plain.norm(dim=-1) * 1.001).all()
    assert own.norm() < 0.97 * plain.norm()
    codes = torch.randint(-8, 8, (16, 64), dtype=torch.int8)
    scales = torch.randn(16, 2).half()
    stored = (codes * scales.float().repeat_interleave(32, 1)).bfloat16()
    setattr(stored, STORED_SCALES, scales)
    again = int4_groups(stored)
    assert torch.equal(again.codes.view(torch.int8), codes)
    assert torch.equal(again.block_scales, scales)


@pytest.mark.parametrize(("name", "wide"), [("int4_zero", 2), ("int4_zero", 4), ("int4_minimum", 1)])
def test_four_bits_with_zeros_keep_the_codes_of_a_file(name: str, wide: int) -> None:
    """Zero points of groups of 64 and 128 columns, the last ones short, and minimums; zeros cut and moved alike."""
    chance = torch.Generator().manual_seed(wide)
    codes = torch.randint(0, 16, (16, 208), dtype=torch.int8, generator=chance)
    groups = -(-7 // wide)

    def spread(numbers: torch.Tensor) -> torch.Tensor:
        return numbers.repeat_interleave(wide, dim=1)[:, :7]

    scales = spread((torch.rand(16, groups, generator=chance) + 0.5).half())
    if name == "int4_zero":
        zeros = spread(torch.randint(0, 16, (16, groups), dtype=torch.int8, generator=chance))
        exact = (codes - zeros.repeat_interleave(32, 1)[:, :208]) * scales.float().repeat_interleave(32, 1)[:, :208]
    else:
        zeros = spread((torch.randn(16, groups, generator=chance) * 3 - 8).half())
        exact = (
            codes * scales.float().repeat_interleave(32, 1)[:, :208] + zeros.float().repeat_interleave(32, 1)[:, :208]
        )
    stored = exact.bfloat16()
    setattr(stored, STORED_SCALES, scales)
    setattr(stored, STORED_ZEROS, zeros)
    again = QUANTISERS[stored_form("int4", [stored, torch.zeros(2, 2), stored])](stored)
    assert again.zeros.dtype == zeros.dtype
    assert torch.equal(again.codes.view(torch.int8), codes)
    assert torch.equal(again.values(torch.float32), exact)
    part = again.rows(slice(0, 8)).columns(64, 100).to(torch.device("cpu"))
    assert torch.equal(part.values(torch.float32), exact[:8, 64:164])
    assert torch.equal(rounded(stored, "int8"), stored) == (name == "int4_zero"), (
        "multiples of their scales are int8 too"
    )


def test_zero_points_of_groups_of_32_are_rounded_once_more() -> None:
    stored = torch.randn(16, 64).bfloat16()
    setattr(stored, STORED_SCALES, torch.rand(16, 2).half() + 0.1)
    setattr(stored, STORED_ZEROS, torch.full((16, 2), 3, dtype=torch.int8))
    matrix = QUANTISERS["int4_zero"](stored)
    assert matrix.block_scales is not None
    assert in_pairs(matrix.block_scales)


@pytest.mark.parametrize("name", ["int8", *INT4])
def test_integers_take_zeros_and_refuse_what_float16_cannot_scale(name: str) -> None:
    assert not rounded(torch.zeros(16, 32), name).any()
    with pytest.raises(ValueError, match=f"too large for {name[:4]} with a float16 scale"):
        rounded(torch.full((16, 32), 1e7), name)


@pytest.mark.parametrize("name", ["fp8", "nvfp4"])
@pytest.mark.parametrize("size", [0.0, 1e-30, 1e30])
def test_zeros_and_extreme_sizes(name: str, size: float) -> None:
    weight = (matrix(16, 32, 4, spread=1.0).float() * size).to(torch.bfloat16)
    result = rounded(weight, name).float()
    assert torch.isfinite(result).all()
    assert (result - weight.float()).norm() <= 0.12 * weight.float().norm()


@pytest.mark.parametrize("name", LOWER)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_weights_that_are_no_numbers_are_refused(name: str, bad: float) -> None:
    weight = matrix(16, 32, 5)
    weight[3, 7] = bad
    with pytest.raises(ValueError, match="weight: it holds numbers that are not finite"):
        rounded(weight, name)


def test_what_a_format_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="24 columns"):
        nvfp4_power_of_two(torch.zeros(16, 24))
    with pytest.raises(ValueError, match="weights: 'int3' is not one of bf16, int8, fp8, fp8_layers, nvfp4"):
        format_of("int3")
    with pytest.raises(ValueError, match="the scales on cpu are smaller than its rows need"):
        fp8_rows(torch.ones(2, 16), torch.tensor([1.0, 2.0**-20]))
    for number in (torch.inf, torch.nan, 2.0**116):
        with pytest.raises(ValueError, match="too large for mxfp4"):
            absmax.quantise_absmax(torch.tensor([[number] + [1.0] * 31]), "mxfp4")
    own = int4_minimum(matrix(16, 64, 3))
    with pytest.raises(ValueError, match="columns that share a scale in int4_zero have different ones"):
        streams(own, format_of("int4_zero"), 0, 4)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), least=st.integers(0, 200))
def test_mxfp4_recovers_what_a_checkpoint_holds(seed: int, least: int) -> None:
    """transformers' own reader of gpt-oss's experts gives the values; the smallest scale is subnormal in float32."""
    chance = torch.Generator().manual_seed(seed)
    blocks = torch.randint(256, (1, 3, 4, 16), dtype=torch.uint8, generator=chance)
    blocks[0, 0, 0] = 0x80
    scales = torch.randint(least, least + 40, (1, 3, 4), dtype=torch.uint8, generator=chance)
    expected = convert_moe_packed_tensors(blocks, scales, dtype=torch.bfloat16)[0].T
    assert torch.equal(absmax.values(absmax.quantise_absmax(expected, "mxfp4")), expected.float())


def test_an_inverse_gives_back_what_was_mapped_where_there_is_one():
    def linear(word: int) -> int:
        return word ^ (word << 5 & 0xFFFFFFFF)

    adds = gf2_inverse(linear)
    for word in (0, 1, 0x80000000, 0xDEADBEEF):
        count = 0
        for bit, added in enumerate(adds):
            count ^= added * (linear(word) >> bit & 1)
        assert count == word
    with pytest.raises(ValueError, match="no inverse"):
        gf2_inverse(lambda word: word & 0xFF)
