"""`grouped_blackwell`: the products of a mixture-of-experts layer in one launch, by hand for sm_100a.

It compiles and is emulated; it never ran on the chip.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernels.check_args import check_served
from kernels.cuda.nvrtc import Build
from kernels.gemm.blackwell_plan import SM
from kernels.gemm.grouped_blackwell_plan import build_of, space, tile_of
from kernels.gemm.grouped_hopper import packed, refusal
from kernels.hardware import Gpu
from kernels.ops import GroupedCase
from kernels.registry import Refusal, Variant, register

if TYPE_CHECKING:
    import torch


@register
class GroupedBlackwell(Variant):
    """One persistent launch for all experts; docs/kernels/grouped-blackwell.md."""

    name = "grouped_blackwell"
    op = "grouped"
    page = "grouped-blackwell"
    summary = "all experts' products in tensor memory (sm_100a); compiles, emulated, never run on the chip"

    def serves(self, case: GroupedCase, gpu: Gpu) -> Refusal | None:
        return refusal(case, gpu, SM)

    def pack(self, case: GroupedCase, params: dict[str, Any], weight: "torch.Tensor") -> "torch.Tensor":
        """w as it is; for swiglu each expert's gate and up interleaved by 8 rows, [experts, 2n, k]."""
        return packed(case, weight)

    def cuda_builds(self, case: GroupedCase, params: dict[str, Any], gpu: Gpu) -> list[Build]:
        return [build_of(case, tile_of(case, params))]

    def space(self, case: GroupedCase) -> list[dict[str, Any]]:
        return space(case)

    def build(self, case: GroupedCase, params: dict[str, Any]) -> "Callable[..., torch.Tensor]":
        """f(x [rows, k], w [experts, n, k], ends [experts] int32) -> y [rows, n], rows sorted by expert.

        `ends` stays on the device. Ends that are out of order or exceed the rows cause no access outside the tensors.
        Rows after the last end are not written. Raises ValueError that names the argument.
        """
        from kernels.gemm.grouped_blackwell_call import GroupedBlackwellProduct

        check_served(self, case, SM)
        return GroupedBlackwellProduct(case, params)
