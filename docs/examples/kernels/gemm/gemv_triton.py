"""One row of x times a matrix, in Triton."""

from collections.abc import Callable
from typing import Any

from kernels.check_args import gpu_refusal, merge_params
from kernels.hardware import Gpu
from kernels.ops import LinearCase
from kernels.registry import Refusal, Variant, register


@register
class GemvTriton(Variant):
    """Each program reads whole rows of w once."""

    name = "gemv_triton"
    op = "linear"
    page = "gemv"
    summary = "one row of x times a matrix"
    kernels = ("_gemv",)

    def serves(self, case: LinearCase, gpu: Gpu) -> Refusal | None:
        if case.m != 1:
            return Refusal(f"m is {case.m}: this variant takes one row")
        if case.weights != case.dtype:
            return Refusal(f"weights is {case.weights}: this variant takes weights of the dtype of x, {case.dtype}")
        if case.epilogue != "none":
            return Refusal(f"epilogue is {case.epilogue}: this variant has none")
        return gpu_refusal(gpu)

    def build(self, case: LinearCase, params: dict[str, Any]) -> Callable[..., Any]:
        """f(x, w, out=None) -> y. Takes `rows` of w and `columns` at a time for each program."""
        from kernels.gemm.gemv_triton_call import GemvTritonCall

        return GemvTritonCall(case, **merge_params(self.name, params, self.space(case)[0]))

    def space(self, case: LinearCase) -> list[dict[str, Any]]:
        return [{"rows": rows, "columns": columns} for rows, columns in ((4, 512), (8, 256), (2, 1024))]
