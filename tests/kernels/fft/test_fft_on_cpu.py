"""The CUDA source of the long convolution, run thread by thread on a CPU."""

import ctypes
from pathlib import Path
from typing import Any

import pytest
import torch

from kernels.fft import fft_tiles
from kernels.fft.fft_call import Arguments, packed_params
from kernels.fft.fft_tiles import FftConfig
from kernels.ops import reference
from kernels.ops.fft_conv import FftConvCase
from kernels.proof import inputs
from tests.kernels.on_cpu.translate import library

ENTRY = """
extern "C" int run(const Params* p, int blocks, long shared_bytes) {
  return fibers::run(blocks, THREADS, 1, shared_bytes, [&] { ENTRY(*p); });
}"""
OUTER_ENTRY = """
extern "C" int run(const Params* p, int blocks, long shared_bytes, int forward) {
  return fibers::run(blocks, THREADS, 1, shared_bytes, [&] {
    forward ? fft_outer_forward(*p) : fft_outer_backward(*p);
  });
}"""


def convolved(case: FftConvCase, config: FftConfig, given: dict[str, torch.Tensor], blocks: int = 1) -> torch.Tensor:
    """y of the kernels."""
    packed = fft_tiles.spectrum(case, given["w"], config)
    params = packed_params(case, Arguments(**given | {"w": packed}))
    y, total = torch.full_like(given["u"], float("nan")), case.batch * case.width
    words = torch.full((total, config.outer, config.points), -1, dtype=torch.int32)
    exponents = torch.full((total, config.points // config.strip), -1, dtype=torch.int32)
    params["prefetched"] = 0
    params["y"], params["workspace"], params["exponents"] = (each.data_ptr() for each in (y, words, exponents))
    given_params = params.ctypes.data_as(ctypes.c_void_p)

    def run(source: Path, entry: str, macros: dict[str, Any], *launch: Any) -> None:
        assert library(source, entry, macros).run(given_params, *launch) == 0, "all threads wait for each other"

    strips, size = total * config.points // config.strip, ctypes.c_long(config.outer_shared_bytes)
    if config.outer > 1:
        run(fft_tiles.OUTER, OUTER_ENTRY, config.outer_macros(case), strips, size, 1)
    run(
        config.source,
        ENTRY.replace("ENTRY", config.entry),
        config.macros(case),
        blocks,
        ctypes.c_long(config.shared_bytes),
    )
    if config.outer > 1:
        run(fft_tiles.OUTER, OUTER_ENTRY, config.outer_macros(case), strips, size, 0)
    return y


def rms(x: torch.Tensor) -> float:
    return float(x.double().square().mean().sqrt())


@pytest.mark.parametrize(
    ("changes", "config"),
    [
        ({"length": 256, "filter": 256, "batch": 3, "width": 2}, FftConfig(256, 4, 64, 1)),
        ({"length": 301, "filter": 1000, "dtype": "fp16", "skip": True, "batch": 3}, FftConfig(512, 2, 64, 1)),
        ({"length": 1024, "filter": 7, "gated": False}, FftConfig(1024, 1, 64, 1)),
        ({"length": 2048, "filter": 3000, "circular": True, "dtype": "fp16"}, FftConfig(2048, 1, 64, 1)),
        ({"length": 4096, "filter": 4096}, FftConfig(4096, 1, 128, 1)),
        ({"length": 4096, "filter": 4000, "batch": 2, "skip": True}, FftConfig(256, 2, 64, 1, 16, 64)),
        ({"length": 8190, "filter": 8000, "dtype": "fp16"}, FftConfig(512, 1, 64, 1, 16, 128)),
        ({"length": 16384, "filter": 16384, "circular": True, "dtype": "fp16"}, FftConfig(256, 4, 64, 1, 64, 64)),
        ({"length": 8191, "filter": 8000, "dtype": "fp16", "gated": False}, FftConfig(8192, 1, 128, 1)),
        ({"length": 16384, "filter": 16384, "dtype": "fp16"}, FftConfig(16384, 1, 256, 1)),
        ({"length": 32768, "filter": 32768, "dtype": "fp16", "skip": True}, FftConfig(32768, 1, 512, 1)),
    ],
)
def test_it_is_right(changes: dict[str, Any], config: FftConfig) -> None:
    case = FftConvCase(**({"batch": 1, "width": 1} | changes))
    given = inputs.draw(case, "cpu", 1)
    y = convolved(case, config, given)
    truth, own = reference.compute(case, given)[0], case.native(given)[0]
    oracle = case.oracle((truth,), (own,), reference.rounding(case, given), given, given)
    for found in oracle.compare_all((y,), "here"):
        print(found.error, found.limit)
        assert found.holds, (found.error, found.limit)
