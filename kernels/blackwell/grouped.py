"""`grouped_blackwell(_fp8)`: experts' products for sm_100a; compile and are emulated, never ran on the chip."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernels.blackwell.gemm_tiles import SM
from kernels.blackwell.grouped_tiles import build_of, space, tile_of
from kernels.check_args import check_served
from kernels.cuda.nvrtc import Build
from kernels.gemm.grouped_hopper import pack_experts, refusal
from kernels.gemm.torch_grouped import operands_refusal
from kernels.hardware import Gpu
from kernels.ops import GroupedCase
from kernels.registry import Refusal, Variant, register

if TYPE_CHECKING:
    import torch


@register
class GroupedBlackwell(Variant):
    """One persistent launch for all experts; docs/kernels/grouped-blackwell.md."""

    name = "grouped_blackwell"
    kernels = ("gemm",)
    op = "grouped"
    page = "grouped-blackwell"
    summary = "all experts' products in tensor memory (sm_100a); compiles, emulated, never run on the chip"
    device_lengths = True

    def serves(self, case: GroupedCase, gpu: Gpu) -> Refusal | None:
        return refusal(case, gpu, SM) or operands_refusal(case)

    def pack(self, case: GroupedCase, params: dict[str, Any], weight: "torch.Tensor") -> Any:
        """w as it is; for swiglu each expert's gate and up interleaved by 8 rows, [experts, 2n, k]."""
        return pack_experts(case, weight)

    def cuda_builds(self, case: GroupedCase, params: dict[str, Any], gpu: Gpu) -> list[Build]:
        return [build_of(case, tile_of(case, params))]

    def space(self, case: GroupedCase) -> list[dict[str, Any]]:
        return space(case)

    def build(self, case: GroupedCase, params: dict[str, Any]) -> "Callable[..., torch.Tensor]":
        """f(x [rows, k], w [experts, n, k], offs [experts] int32) -> y [rows, n], rows sorted by expert. `offs` stays
        on the device; wrong ends cause no access outside. Rows after the last end are not written.
        """
        from kernels.blackwell.grouped_call import GroupedBlackwellProduct

        check_served(self, case, SM)
        return GroupedBlackwellProduct(case, params)


@register
class GroupedBlackwellFp8(GroupedBlackwell):
    """As `GroupedBlackwell`, of e4m3 operands with a float32 scale for each row of x and w."""

    name = "grouped_blackwell_fp8"
    summary = "all experts' products in fp8 in tensor memory (sm_100a); compiles, emulated, never run on the chip"
    lossy = True

    def serves(self, case: GroupedCase, gpu: Gpu) -> Refusal | None:
        if (refusal_of := refusal(case, gpu, SM)) is not None:
            return refusal_of
        if case.scales != "row":
            return Refusal("no scales are given: this variant multiplies e4m3 with a scale for each row")
        if case.k % 16:
            return Refusal(f"k is {case.k}: rows of x and w must be a multiple of 16 bytes")
        return None

    def pack(
        self, case: GroupedCase, params: dict[str, Any], weight: "torch.Tensor"
    ) -> "tuple[torch.Tensor, torch.Tensor]":
        """(values e4m3 [experts, n, k], scales [experts, n, 1]), gate and up interleaved by 8 rows for swiglu."""
        from kernels.quant import scaled

        values, scales = scaled.of_w(pack_experts(case, weight).flatten(0, 1), "row")
        return values.view(weight.shape), scales.view(*weight.shape[:2], 1)

    def rounded(self, case: GroupedCase, params: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        from kernels.quant import scaled

        x, w = arguments["x"], arguments["w"]
        return arguments | {"x": scaled.through_fp8(x), "w": scaled.through_fp8(w.flatten(0, 1)).view(w.shape)}
