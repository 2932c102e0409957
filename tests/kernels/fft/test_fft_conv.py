"""Long convolutions: what the op means, what each variant serves, and that the kernels compile without spills."""

from typing import Any

import pytest
import torch

from kernels import registry
from kernels.cases.fft import bench, check
from kernels.cuda.occupancy import RESERVED, SHARED_MOST
from kernels.fft import fft_tiles, short_call
from kernels.hardware import GPUS
from kernels.ops import FftConvCase
from kernels.ops.reference import compute
from kernels.proof import gate
from kernels.proof.inputs import draw
from tests.kernels.compiling import compile_log, resources

CASE = FftConvCase(batch=2, width=4, length=1000, filter=1000)
MILLION = FftConvCase(batch=1, width=768, length=1 << 20, filter=1 << 20)


@pytest.mark.parametrize(("length", "taps", "circular"), [(9, 4, False), (6, 20, False), (8, 3, True), (5, 13, True)])
def test_the_reference_is_the_sum_that_defines_it(length: int, taps: int, circular: bool) -> None:
    case = FftConvCase(
        batch=2, width=4, length=length, filter=taps, filters=2, skip=True, circular=circular, dtype="fp32"
    )
    given = draw(case, "cpu", 3)
    u, w, pre, post, d = (given[name].double() for name in ("u", "w", "w_pre", "w_post", "d"))
    expected = torch.zeros_like(u)
    for n in range(length):
        for m in range(taps):
            if circular or m <= n:
                expected[..., n] += w[:, m].repeat_interleave(2) * (u * pre)[..., (n - m) % length]
    torch.testing.assert_close(compute(case, given)[0], expected * post + d[:, None] * u)


def test_its_floor_is_one_read_and_one_write() -> None:
    case = FftConvCase(batch=64, width=768, length=16_384, filter=16_384)
    values = 64 * 768 * 16_384 * 2
    assert case.least_bytes == 4 * values + 768 * 16_384 * 4
    assert case.model_copy(update={"gated": False}).least_bytes == 2 * values + 768 * 16_384 * 4
    assert case.flops == pytest.approx(64 * 768 * (5 * 32_768 * 15 + 3 * 32_768))
    assert case.model_copy(update={"filter": 7}).unavoidable_flops == 64 * 768 * 16_384 * 14


def test_every_case_has_kernels_of_ours_on_hopper_alone() -> None:
    for case in (*bench(False), *check("bf16", False)):
        offered = registry.offers(case, GPUS["h200"])[0]
        assert any(not variant.peer for variant in offered), case.key
        assert all(variant.peer for variant in registry.offers(case, GPUS["a100"])[0])


def test_blocks_fit_on_their_sm() -> None:
    for log in range(8, 22):
        case = FftConvCase(batch=1, width=1, length=1 << log, filter=7)
        for config in fft_tiles.configs(case) if log < 16 else fft_tiles.long_configs(case):
            assert config.points * config.outer == 1 << log
            assert config.blocks * (config.shared_bytes + RESERVED) <= SHARED_MOST + RESERVED


@pytest.mark.parametrize("length", [2048, 16_384, 32_768])
def test_kernels_in_one_pass_compile_without_spills(length: int) -> None:
    case = FftConvCase(batch=64, width=768, length=length, filter=length)
    config = fft_tiles.configs(case)[0]
    used = resources(compile_log(config.source, config.macros(case)))
    assert (used.spill_stores, used.spill_loads, used.stack) == (0, 0, 0)


def test_kernels_in_three_passes_compile_without_spills() -> None:
    config = fft_tiles.long_configs(MILLION)[0]
    for source, macros in ((config.source, config.macros(MILLION)), (fft_tiles.OUTER, config.outer_macros(MILLION))):
        log = compile_log(source, macros)
        assert log.count("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") == log.count("bytes stack")


def test_products_with_few_taps_compile_without_spills() -> None:
    macros = short_call.macros(FftConvCase(batch=1, width=1, length=8192, filter=129), 32)
    used = resources(compile_log(short_call.SOURCE, macros))
    assert (used.spill_stores, used.spill_loads, used.stack) == (0, 0, 0)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_it_passes_the_gate_on_a_gpu(dtype: Any) -> None:
    for case in check(dtype, False):
        for variant in registry.offers(case, GPUS["h200"])[0]:
            if not variant.peer:
                for params in variant.space(case):
                    report = gate.check(variant, case, "cuda", params)
                    assert report.passed, f"{variant.name} {params} {case.key}: {report.sentence}"
