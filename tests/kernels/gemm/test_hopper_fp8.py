"""gemm_hopper_fp8 and torch's scaled product: what they serve, how operands are scaled, that they are right."""

from typing import Any

import pytest
import torch

from kernels.gemm import hopper_call
from kernels.gemm.hopper_tiles import PING_PONG, space, tile_of
from kernels.hardware import GPUS
from kernels.ops import LinearCase, Scales
from kernels.proof import gate
from kernels.quant import scaled
from kernels.quant.formats import E4M3_MAX, FLOAT_SCALES
from kernels.registry import variant
from tests.kernels.compiling import compile_log, resources

GRANULARITIES = FLOAT_SCALES


def case(**fields: Any) -> LinearCase:
    return LinearCase(**{"m": 1024, "n": 1024, "k": 512, "weights": "fp8", "scales": "row"} | fields)


@pytest.mark.parametrize(
    ("scales", "promote", "epilogue"),
    [("tensor", True, "bias"), ("row", False, "quantise"), ("row", True, "residual"), ("block", True, "bias")],
)
def test_it_compiles_without_spills(scales: Scales, promote: bool, epilogue: str) -> None:
    shape = case(scales=scales, epilogue=epilogue)
    stages = 3 if epilogue == "bias" and scales != "tensor" else 4
    tile = tile_of(shape, {"columns": 256, "stages": stages, "promote": promote})
    result = resources(log := compile_log(hopper_call.SOURCE, hopper_call.constants(shape, tile)))
    assert (result.stack, result.spill_stores, result.spill_loads) == (0, 0, 0)
    assert "serialized" not in log


@pytest.mark.parametrize("scales", GRANULARITIES)
def test_scaled_operands_hold_what_they_are_made_from(scales: Scales) -> None:
    x = torch.randn(300, 400, generator=torch.Generator().manual_seed(3))
    for make in (scaled.of_x, scaled.of_w):
        values, scale = make(x, scales)
        assert float(values.float().abs().max()) == E4M3_MAX
        assert float((scaled.dequantise((values, scale)) - x).norm() / x.norm()) < 0.04
        assert scale.numel() == {"tensor": 1, "row": 300, "block": 300 * 4 if make is scaled.of_x else 3 * 4}[scales]
    assert scaled.of_x(x, "block")[1].stride() == (1, 300)


def test_long_sums_and_blocks_try_promotion_first() -> None:
    assert tile_of(case(k=14_336), {}).promote
    assert not tile_of(case(k=4096), {}).promote
    assert all(item["promote"] for item in space(case(dtype="fp16")))
    assert all(tile_of(case(scales="block"), params).promote for params in space(case(scales="block")))


def _gate(name: str, shape: LinearCase, params: dict[str, Any]) -> None:
    report = gate.check(variant(name), shape, "cuda", params)
    assert report.passed, f"{shape.key} {params}: {report.sentence}"


@pytest.mark.gpu
@pytest.mark.parametrize("scales", GRANULARITIES)
@pytest.mark.parametrize("epilogue", ["none", "bias", "residual", "swiglu", "quantise"])
def test_it_is_right(scales: Scales, epilogue: str) -> None:
    shape = case(m=300, n=272, k=336, scales=scales, epilogue=epilogue)
    if variant("gemm_hopper_fp8").serves(shape, GPUS["h200"]) is None:
        for params in space(shape):
            _gate("gemm_hopper_fp8", shape, params)


@pytest.mark.gpu
@pytest.mark.parametrize("params", PING_PONG, ids=str)
@pytest.mark.parametrize("scales", ["tensor", "row"])
@pytest.mark.parametrize("shape", [(300, 272, 336), (1, 16, 16), (2100, 8208, 528)])
def test_ping_pong_is_right(shape: tuple[int, int, int], scales: Scales, params: dict[str, Any]) -> None:
    m, n, k = shape
    _gate("gemm_hopper_fp8", case(m=m, n=n, k=k, scales=scales), params | {"ping_pong": True})


@pytest.mark.gpu
@pytest.mark.parametrize("scales", GRANULARITIES)
def test_long_sums_are_right_with_promotion(scales: Scales) -> None:
    shape = case(m=256, n=512, k=14_336, scales=scales)
    _gate("gemm_hopper_fp8", shape, {"columns": 256, "stages": 4, "promote": True})
    _gate("torch_scaled_mm", shape, {"fast": False})


@pytest.mark.gpu
def test_scales_of_another_shape_are_named() -> None:
    product = variant("gemm_hopper_fp8").build(shape := case(m=8, n=64, k=64), {})
    x, w = (scaled.of_x(torch.randn(rows, 64, device="cuda"), "row") for rows in (8, 64))
    assert product(x, w).shape == (8, shape.n)
    with pytest.raises(ValueError, match="w's scales"):
        product(x, (w[0], w[1][:8]))
    with pytest.raises(ValueError, match="x is torch"):
        product((x[0].bfloat16(), x[1]), w)
