"""One row of x times a matrix, in CUDA C++."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernels.check_args import merge_params
from kernels.cuda.nvrtc import Build
from kernels.hardware import Gpu
from kernels.ops import LinearCase
from kernels.registry import Refusal, Variant, register

SOURCE = Path(__file__).parent / "gemv.cu"
ELEMENTS = {"bf16": "bf16", "fp16": "f16"}


@register
class GemvCuda(Variant):
    """A warp for each element of y."""

    name = "gemv_cuda"
    op = "linear"
    page = "gemv"
    summary = "one row of x times a matrix, a warp for each element"
    kernels = ("gemv",)

    def serves(self, case: LinearCase, gpu: Gpu) -> Refusal | None:
        if gpu.sm != 90:
            return Refusal(f"device is {gpu.name}: this variant is compiled for Hopper (sm_90a)")
        if case.dtype not in ELEMENTS:
            return Refusal(f"dtype is {case.dtype}: this variant takes bf16 and fp16")
        if case.m != 1:
            return Refusal(f"m is {case.m}: this variant takes one row")
        if case.k % 8:
            return Refusal(f"k is {case.k}: this variant reads 8 columns at a time")
        if case.weights != case.dtype:
            return Refusal(f"weights is {case.weights}: this variant takes weights of the dtype of x, {case.dtype}")
        if case.epilogue != "none":
            return Refusal(f"epilogue is {case.epilogue}: this variant has none")
        return None

    def build(self, case: LinearCase, params: dict[str, Any]) -> Callable[..., Any]:
        """f(x, w) -> y. Takes `warps` of a block."""
        from kernels.gemm.gemv_call import GemvCall

        return GemvCall(case, self._warps(case, params))

    def cuda_builds(self, case: LinearCase, params: dict[str, Any], gpu: Gpu) -> list[Build]:
        return [build_of(case, self._warps(case, params))]

    def space(self, case: LinearCase) -> list[dict[str, Any]]:
        return [{"warps": warps} for warps in (4, 8, 2)]

    def _warps(self, case: LinearCase, params: dict[str, Any]) -> int:
        return int(merge_params(self.name, params, self.space(case)[0])["warps"])


def build_of(case: LinearCase, warps: int) -> Build:
    """The source as it is compiled."""
    return Build.of(SOURCE, macros(case, warps))


def macros(case: LinearCase, warps: int) -> dict[str, Any]:
    return {"ELEMENT": ELEMENTS[case.dtype], "WARPS": warps}
