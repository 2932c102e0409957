"""A call of short_conv.cu. Needs CUDA."""

from functools import partial
from pathlib import Path
from typing import Any

import torch

from kernels.cuda import nvrtc
from kernels.cuda.call import CudaCall, Prepared
from kernels.cuda.launch import Launch
from kernels.dtypes import DTYPES
from kernels.fft.fft_call import Arguments, check_call, pack_params
from kernels.fft.fft_tiles import common_macros
from kernels.ops import FftConvCase

SOURCE = Path(__file__).with_name("short_conv.cu")
THREADS = 128


def macros(case: FftConvCase, segment: int) -> dict[str, object]:
    """The macros of short_conv.cu."""
    steps = 1 + -(-(case.filter - 1) // 16)
    full = int(case.length % (256 * segment) == 0)
    values = {"THREADS": THREADS, "SEGMENT": segment, "TAPS": case.filter, "STEPS": steps, "FULL": full}
    return common_macros(case) | values


def build_of(case: FftConvCase, segment: int) -> nvrtc.Build:
    return nvrtc.Build.of(SOURCE, macros(case, segment))


def blocks_of(case: FftConvCase, segment: int) -> int:
    """The blocks of a launch: a warp takes 16 segments of 16 · `segment` values."""
    return -(-case.batch * case.width * -(-case.length // (256 * segment)) // (THREADS // 32))


class ShortConv(CudaCall):
    """f(u [batch, width, length], w, w_pre=None, w_post=None, d=None) -> y like u; w from `Toeplitz.pack`."""

    in_order = Arguments

    def __init__(self, case: FftConvCase, segment: int) -> None:
        super().__init__()
        self.case, self.segment, self.build = case, segment, build_of(case, segment)

    def _prepare(self, check: bool, stream: int, out: Any, /, *arguments: Any, **named: Any) -> Prepared:
        given, case = Arguments(*arguments, **named), self.case
        if check:
            check_call(case, given, out, case.filter, DTYPES[case.dtype])
        params, kernel = pack_params(case, given), nvrtc.kernel(self.build, "short_conv")
        grid = (blocks_of(case, self.segment),)

        def bind(y: torch.Tensor) -> Launch:
            mine = params.copy()
            mine["y"] = y.data_ptr()
            return Launch(kernel, grid, THREADS, (mine,), stream)

        allocate = partial(torch.empty, *given.u.shape, dtype=given.u.dtype, device=given.u.device)
        return Prepared(allocate, bind)
