"""Products of experts with few rows each, whose weights are int8 or MXFP4: read once, at memory bandwidth."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernels.check_args import check_served
from kernels.cuda.nvrtc import Build
from kernels.gemm.grouped_hopper import refusal
from kernels.hardware import Gpu
from kernels.ops import GroupedCase
from kernels.registry import Refusal, Variant, check_params, register_like

if TYPE_CHECKING:
    import torch

ROWS_OF_EXPERT = 32
"""Rows for each expert, on average, up to which a case is served: every 16 of one unpack its weights again."""


class _GroupedFew(Variant):
    """The base of the variants of both formats; docs/kernels/formats.md.

    Params: `k_warps`, warps that divide k. A launch is a dependent one: weights must not be written meanwhile.
    """

    op = "grouped"
    page = "formats"
    kernels = ("grouped_few",)
    device_lengths = True
    lossy = True
    weights: str = ""

    def serves(self, case: GroupedCase, gpu: Gpu) -> Refusal | None:
        if case.weights != self.weights:
            return Refusal(f"weights is {case.weights or case.dtype}: this variant multiplies {self.weights}")
        if case.scales is not None:
            return Refusal(f"scales is {case.scales}: this variant takes x in {case.dtype}")
        if case.rows > ROWS_OF_EXPERT * case.experts:
            max_rows = ROWS_OF_EXPERT * case.experts
            return Refusal(f"rows is {case.rows}: this variant takes up to {max_rows} of {case.experts} experts")
        return refusal(case, gpu, 90)

    def pack(self, case: GroupedCase, params: dict[str, Any], weight: "torch.Tensor") -> "torch.Tensor":
        """w [experts, rows, k] as the stream of all experts, uint8."""
        from kernels.gemm.grouped_few_call import pack_experts

        return pack_experts(case, weight)

    def packing(self, case: GroupedCase, params: dict[str, Any]) -> str:
        return f"grouped {self.weights} {case.epilogue if case.gates else ''}"

    def rounded(self, case: GroupedCase, params: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        from kernels.quant.absmax import quantise_absmax, values

        w = arguments["w"]
        return arguments | {"w": values(quantise_absmax(w.flatten(0, 1), self.weights)).view(w.shape)}

    def space(self, case: GroupedCase) -> list[dict[str, Any]]:
        return [{"k_warps": 2}, {"k_warps": 4}]

    def cuda_builds(self, case: GroupedCase, params: dict[str, Any], gpu: Gpu) -> list[Build]:
        from kernels.gemm.grouped_few_call import SOURCE, constants, k_warps_of

        return [Build.of(SOURCE, constants(case, params.get("k_warps") or k_warps_of(case)))]

    def build(self, case: GroupedCase, params: dict[str, Any]) -> "Callable[..., torch.Tensor]":
        """f(x [·, k], w, offs [experts] int32, most=None, token [rows] int64, bias) -> y [rows, n]; w as packed,
        `token` the row of x of each row of y, `most` the most rows of an expert. Of `offs` as `grouped_hopper`.
        """
        from kernels.gemm.grouped_few_call import GroupedFew, k_warps_of

        check_served(self, case)
        check_params(self.name, params, ("k_warps",))
        return GroupedFew(case, params.get("k_warps") or k_warps_of(case))


for weights, described in {"int8": "int8 weights, a scale per 32", "mxfp4": "MXFP4 weights"}.items():
    summary = f"experts' products for few rows, {described}"
    register_like(_GroupedFew, __name__, name=f"grouped_{weights}", summary=summary, weights=weights)
