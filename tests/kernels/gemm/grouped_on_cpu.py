"""The CUDA source of products of experts with few rows, run thread by thread on a CPU."""

import ctypes
from collections.abc import Callable
from typing import Any

import torch

from kernels.dtypes import DTYPES
from kernels.gemm import grouped_few_call
from kernels.ops import GroupedCase
from tests.kernels.on_cpu.translate import library

ENTRY = """
extern "C" int run(const Params* p, int columns, int experts, int threads, long shared_bytes) {
  const uint3 grid = {(unsigned)columns, (unsigned)experts, 1};
  return fibers::run(grid, threads, 1, shared_bytes, [&] { grouped_few(*p); });
}"""


def on_cpu(case: GroupedCase, params: dict[str, Any]) -> Callable[..., torch.Tensor]:
    """What `build` of the variant gives, on a CPU."""
    k_warps = params.get("k_warps") or grouped_few_call.k_warps_of(case)
    kernel = library(grouped_few_call.SOURCE, ENTRY, grouped_few_call.constants(case, k_warps))
    grid, threads = grouped_few_call.grid_of(case, k_warps), 32 * grouped_few_call.WARPS

    def product(
        x: torch.Tensor, w: torch.Tensor, offs: torch.Tensor, most: int | None = None, **kwargs: torch.Tensor
    ) -> torch.Tensor:
        y = torch.full((case.rows, case.n), float("nan"), dtype=DTYPES[case.dtype])
        given, shared = grouped_few_call.parameters(case, most, stream=w, x=x, offs=offs, y=y, **kwargs)
        address = given.ctypes.data_as(ctypes.c_void_p)
        assert kernel.run(address, *grid, threads, ctypes.c_long(shared)) == 0
        return y

    return product
