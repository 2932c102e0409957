"""The skinny product's layout, tile configs, refusals and sources; what needs a GPU is in test_skinny_gpu.py."""

import itertools

import pytest
import torch

from kernels import registry
from kernels.cuda.occupancy import H200_CLUSTERS, MAX_SHARED_BYTES, SHARED_HALF
from kernels.gemm.skinny_call import SOURCE, SchedulerCounters, macros, parameters
from kernels.gemm.skinny_tiles import KINDS, configs
from kernels.ops import LinearCase
from kernels.quant.absmax import quantise_absmax, values
from kernels.quant.formats import INT4
from tests.kernels.compiling import compile_log, resources


@pytest.mark.parametrize(
    ("weights", "limit"),
    [
        ("int8", 0.01), ("fp8", 0.03), ("nvfp4", 0.11), ("mxfp4", 0.2), ("int4", 0.11), ("int4_zero", 0.12),
        ("int4_minimum", 0.1),
    ],
)  # fmt: skip
def test_rounding_costs_what_the_format_costs(weights, limit):
    weight = torch.randn(64, 512, generator=torch.Generator().manual_seed(2))
    error = (values(quantise_absmax(weight, weights)) - weight).norm() / weight.norm()
    assert limit / 3 < error < limit


@pytest.mark.parametrize("weights", ["int8", "fp8", "nvfp4", "mxfp4", *INT4])
def test_rows_of_zeros_and_single_spikes_survive(weights):
    weight = torch.zeros(16, 256)
    weight[3, 7] = 5.0
    rounded = values(quantise_absmax(weight, weights))
    assert rounded[3, 7] == pytest.approx(5.0, rel=0.25 if weights == "mxfp4" else 0.02)
    assert rounded.abs().sum() == rounded[3, 7].abs()


SHAPES = [(16384, 2048), (2048, 8192), (3072, 2048), (2048, 1536), (28672, 4096), (4096, 14336), (192, 320)]


@pytest.mark.parametrize("kind", KINDS)
def test_tile_configs_cover_the_product_and_fit(kind):
    for (rows, k), m in itertools.product(SHAPES, (1, 4, 8, 16)):
        result = configs(kind, m, rows, k)
        assert result, (rows, k, m)
        for config in result:
            assert config.units * config.unit_rows >= rows
            assert config.splits * config.split_k >= k
            max_active = H200_CLUSTERS[config.splits]
            assert config.shared_bytes(max_active, False) <= MAX_SHARED_BYTES
            assert 2 <= config.stages(max_active, True) <= 16
            assert config.x_bytes % 128 == 64
        best = result[0]
        padded = best.splits * best.split_k * best.units * best.unit_rows
        assert padded < 1.08 * rows * k or rows * k < 4_000_000
        assert best.shared_bytes(H200_CLUSTERS[best.splits], True) <= SHARED_HALF or m * k > 8192


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"x": torch.zeros(3, 64, dtype=torch.bfloat16)}, "x"),
        ({"x": torch.zeros(2, 64)}, "x"),
        ({"x": torch.zeros(64, 2, dtype=torch.bfloat16).T}, "x"),
        ({"x": torch.zeros(2, 64, dtype=torch.bfloat16)}, "x is on cpu"),
    ],
)
def test_a_direct_call_names_the_argument(change, name):
    case = LinearCase(m=2, n=64, k=64)
    variant = registry.variant("skinny")
    with pytest.raises(ValueError, match=name):
        variant.build(case, {})(**{"w": variant.pack(case, {}, torch.zeros(64, 64, dtype=torch.bfloat16))} | change)


def test_a_weight_of_another_shape_is_named():
    case, variant = LinearCase(m=2, n=64, k=64), registry.variant("skinny")
    with pytest.raises(ValueError, match="weight has shape"):
        variant.pack(case, {}, torch.zeros(32, 64, dtype=torch.bfloat16))


@pytest.mark.parametrize(
    ("kind", "m", "dtype", "epilogue"),
    [
        ("same", 16, "fp16", "rmsnorm_scale_swiglu"), ("int8", 16, "bf16", "rmsnorm_scale_swiglu"),
        ("fp8", 16, "bf16", "rmsnorm_scale_bias"), ("nvfp4", 16, "bf16", "residual"),
        ("int4", 16, "bf16", "rmsnorm_scale_swiglu"), ("int4_zero", 16, "fp16", "none"),
        ("int4_minimum", 16, "bf16", "residual"),
    ],
)  # fmt: skip
def test_nothing_is_spilled(kind, m, dtype, epilogue):
    case = LinearCase(m=m, n=4096, k=4096, epilogue=epilogue)
    result = configs(kind, m, case.weight_rows, case.k)
    config = max(result, key=lambda config: config.splits * config.warps * config.row_tiles)
    used = resources(compile_log(SOURCE, macros(config, dtype, case.gates, case.normalises)))
    assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0)
    assert used.registers * config.blocks * (config.warps * 32 + 64) <= 65536


def test_a_gpu_too_small_for_the_cut_is_named():
    """Few SMs have so many units each that what is kept of them leaves no room for the ring."""
    config = configs("same", 16, 128_256, 2048, keep=True)[0]
    assert parameters(config, 132, False)["stages"] >= 2
    with pytest.raises(ValueError, match="16 clusters of 1"):
        parameters(config, 16, False)


def test_counters_are_made_before_a_graph_captures_their_weight(monkeypatch):
    dynamic, weight, other = SchedulerCounters(), (torch.zeros(16),), (torch.zeros(16),)
    capturing = False
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing)
    first = dynamic.of(weight)
    capturing = True
    assert dynamic.of(weight) is first
    with pytest.raises(ValueError, match=r"w has not been multiplied yet"):
        dynamic.of(other)
