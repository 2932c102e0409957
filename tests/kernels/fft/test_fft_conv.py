"""Long convolutions: what the op means, what each variant serves, and that the kernels compile without spills."""

import ctypes
from pathlib import Path
from typing import Any

import pytest
import torch

from kernels import registry
from kernels.cases.fft import bench, check
from kernels.cuda.occupancy import MAX_SHARED_BYTES, RESERVED
from kernels.fft import fft_tiles, short_call
from kernels.fft.fft_call import Arguments, pack_params
from kernels.fft.fft_tiles import FftConfig
from kernels.fft.toeplitz import Toeplitz
from kernels.hardware import GPUS
from kernels.ops import FftConvCase, reference
from kernels.ops.reference import compute
from kernels.proof import gate, inputs
from kernels.proof.inputs import draw
from tests.kernels.compiling import compile_log, resources
from tests.kernels.on_cpu.translate import library

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
            assert config.blocks * (config.shared_bytes + RESERVED) <= MAX_SHARED_BYTES + RESERVED


@pytest.mark.parametrize("length", [2048, 16_384, 32_768])
def test_kernels_in_one_pass_compile_without_spills(length: int) -> None:
    case = FftConvCase(batch=64, width=768, length=length, filter=length)
    config = fft_tiles.configs(case)[0]
    used = resources(compile_log(config.source, config.macros(case)))
    assert (used.spill_stores, used.spill_loads, used.stack) == (0, 0, 0)


def test_kernels_in_three_passes_and_products_with_few_taps_compile_without_spills() -> None:
    config = fft_tiles.long_configs(MILLION)[0]
    for source, macros in ((config.source, config.macros(MILLION)), (fft_tiles.OUTER, config.outer_macros(MILLION))):
        log = compile_log(source, macros)
        assert log.count("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") == log.count("bytes stack")
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


ENTRY = """
extern "C" int run(const Params* p, int blocks, long shared_bytes) {
  return fibers::run(blocks, THREADS, 1, shared_bytes, [&] { %s(*p); });
}"""
OUTER_ENTRY = """
extern "C" int run(const Params* p, int blocks, long shared_bytes, int forward) {
  return fibers::run(blocks, THREADS, 1, shared_bytes, [&] {
    forward ? fft_outer_forward(*p) : fft_outer_backward(*p);
  });
}"""
BEHIND = 2048
"""Values behind the output, which nothing may write."""
WIDE, LONG = FftConfig(4096, 128, 1), FftConfig(2048, 256, 1, 16, 128)


def ran(source: Path, entry: str, macros: dict[str, Any], params: Any, *launch: Any) -> None:
    given = params.ctypes.data_as(ctypes.c_void_p)
    assert library(source, entry, macros).run(given, *launch) == 0, "all threads wait for each other"


def convolved(case: FftConvCase, config: FftConfig, given: dict[str, torch.Tensor]) -> torch.Tensor:
    """y of the kernels with transforms, as one block."""
    params = pack_params(case, Arguments(**given | {"w": (packed := fft_tiles.spectrum(case, given["w"], config))}))
    y, total = torch.full_like(given["u"], float("nan")), case.batch * case.width
    words = torch.full((total, config.outer, config.points), -1, dtype=torch.int32)
    exponents = torch.full((total, config.points // config.strip), -1, dtype=torch.int32)
    params["y"], params["workspace"], params["exponents"] = (value.data_ptr() for value in (y, words, exponents))
    strips, size = exponents.numel(), ctypes.c_long(config.outer_shared_bytes)
    if config.outer > 1:
        ran(fft_tiles.OUTER, OUTER_ENTRY, config.outer_macros(case), params, strips, size, 1)
    shared_bytes = ctypes.c_long(config.shared_bytes)
    ran(config.source, ENTRY % config.entry, config.macros(case), params, 1, shared_bytes)
    if config.outer > 1:
        ran(fft_tiles.OUTER, OUTER_ENTRY, config.outer_macros(case), params, strips, size, 0)
    assert packed[0].shape == (case.filters or case.width, config.outer * config.points)
    return y


def check_answer(case: FftConvCase, given: dict[str, torch.Tensor], y: torch.Tensor) -> None:
    """Asserts what the gate asks for."""
    truth, own = reference.compute(case, given), case.native(given)
    oracle = case.oracle(truth, own, reference.rounding(case, given), given, given)
    for comparison in oracle.compare_all((y,), "here"):
        assert comparison.holds, comparison


@pytest.mark.parametrize(
    ("changes", "config"),
    [
        ({"length": 200, "filter": 200, "skip": True, "batch": 3, "width": 7}, FftConfig(256, 128, 1)),
        ({"length": 301, "filter": 1000, "skip": True, "batch": 3}, FftConfig(512, 64, 1)),
        ({"length": 1024, "filter": 1000, "batch": 2, "width": 3}, FftConfig(1024, 128, 1)),
        ({"length": 2048, "filter": 3000, "circular": True}, FftConfig(2048, 256, 1)),
        ({"length": 4096, "filter": 7, "width": 4, "filters": 2}, WIDE),
        ({"length": 8191, "filter": 8000, "gated": False}, FftConfig(8192, 256, 1)),
        ({"length": 32_768, "filter": 32_768}, FftConfig(32_768, 512, 1)),
        ({"length": 32_760, "filter": 32_768, "skip": True}, LONG),
    ],
)
def test_transforms_are_right(changes: dict[str, Any], config: FftConfig) -> None:
    case = FftConvCase(**({"batch": 1, "width": 1} | changes))
    given = inputs.draw(case, "cpu", 1)
    check_answer(case, given, convolved(case, config, given))


@pytest.mark.parametrize(
    ("changes", "segment"),
    [
        ({"length": 1030, "filter": 7, "skip": True, "batch": 2, "width": 2}, 4),
        ({"length": 3000, "filter": 128, "width": 4, "filters": 2}, 8),
        ({"length": 2048, "filter": 100, "gated": False, "dtype": "fp16"}, 4),
        ({"length": 256, "filter": 7}, 4),
    ],
)
def test_products_with_few_taps_are_right(changes: dict[str, Any], segment: int) -> None:
    case = FftConvCase(**({"batch": 1, "width": 1} | changes))
    given = inputs.draw(case, "cpu", 1)
    params = pack_params(case, Arguments(**given | {"w": (packed := Toeplitz().pack(case, {}, given["w"]))}))
    memory = torch.full((given["u"].numel() + BEHIND,), float("nan"), dtype=given["u"].dtype)
    y, behind = memory[:-BEHIND].view(given["u"].shape), memory[-BEHIND:]
    params["y"] = y.data_ptr()
    blocks = short_call.blocks_of(case, segment)
    ran(short_call.SOURCE, ENTRY % "short_conv", short_call.macros(case, segment), params, blocks, ctypes.c_long(0))
    assert packed[0].dtype == given["u"].dtype
    check_answer(case, given, y)
    assert behind.isnan().all()


def test_strips_of_unlike_magnitude_get_one_scale() -> None:
    """The columns of each row from 1,000 on are larger by 2¹⁰⁰ than those before."""
    case = FftConvCase(batch=1, width=1, length=32_760, filter=32_768, skip=True)
    given = inputs.draw(case, "cpu", 2)
    given["u"][..., torch.arange(case.length) % LONG.points >= 1000] *= 2.0**100
    check_answer(case, given, convolved(case, LONG, given))


def test_a_sequence_of_any_magnitude_is_right_and_nan_stays_in_its_own() -> None:
    """Huge and tiny values in one sequence, the least of bf16's range, zeros, NaN, infinity, and a plain one."""
    length = 4096
    case = FftConvCase(batch=6, width=1, length=length, filter=length, gated=False)
    given = inputs.draw(case, "cpu", 2)
    u = given["u"]
    u[0, 0, : length // 2] *= 2.0**100
    u[1] *= 2.0**-120
    u[2] = 0
    u[3, 0, 77], u[4, 0, length - 1] = float("nan"), float("inf")
    y = convolved(case, WIDE, given)
    assert bool(y[3].isnan().all())
    assert not bool(y[4].isfinite().any())
    assert not bool(y[2].any())
    for row in (0, 1, 5):
        one = {name: value if name == "w" else value[row : row + 1] for name, value in given.items()}
        check_answer(case.model_copy(update={"batch": 1}), one, y[row : row + 1])
