"""`grouped_hopper`: the products of a mixture-of-experts layer in one launch, by hand for sm_90a."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernels.check_args import C_TYPES, check_served
from kernels.cuda.nvrtc import Build
from kernels.gemm.grouped_tiles import SOURCE, constants
from kernels.gemm.hopper_tiles import INTERLEAVED, interleave_gate_up
from kernels.gemm.torch_grouped import operands_refusal
from kernels.hardware import Gpu
from kernels.ops import GroupedCase
from kernels.registry import Refusal, Variant, check_params, register
from kernels.tiles.core_matrices import TILE, core_matrices

if TYPE_CHECKING:
    import torch

MAX_EXPERTS = 512


@register
class GroupedHopper(Variant):
    """One persistent launch for all experts; docs/kernels/grouped-hopper.md."""

    name = "grouped_hopper"
    kernels = ("grouped",)
    op = "grouped"
    page = "grouped-hopper"
    summary = "all experts' products in one persistent launch"
    device_lengths = True

    def serves(self, case: GroupedCase, gpu: Gpu) -> Refusal | None:
        return refusal(case, gpu, 90) or operands_refusal(case)

    def pack(self, case: GroupedCase, params: dict[str, Any], weight: "torch.Tensor") -> "torch.Tensor":
        """w, for swiglu with gate and up interleaved by 8 rows, [experts, 2n, k]; as tiles where params say `tiled`."""
        rows = pack_experts(case, weight)
        return core_matrices(rows) if params.get("tiled") else rows

    def cuda_builds(self, case: GroupedCase, params: dict[str, Any], gpu: Gpu) -> list[Build]:
        return [Build.of(SOURCE, constants(case, **params)[0])]

    def build(self, case: GroupedCase, params: dict[str, Any]) -> "Callable[..., torch.Tensor]":
        """f(x [rows, k], w [experts, n, k], offs [experts] int32) -> y [rows, n], rows sorted by expert; with {"tiled":
        True} w as `core_matrices` gives it. `offs` stays on the device: wrong ends cause no access outside, rows after
        the last one are not written. Raises ValueError that names the argument.
        """
        from kernels.gemm.grouped_call import GroupedProduct

        check_served(self, case)
        check_params(self.name, params, ("tiled",))
        if params.get("tiled") and (case.weight_rows % TILE or case.k % TILE):
            raise ValueError(f"tiled: {case.weight_rows} rows of w and k {case.k} are not whole tiles of {TILE}")
        return GroupedProduct(case, **params)


def refusal(case: GroupedCase, gpu: Gpu, sm: int) -> Refusal | None:
    """What a grouped product by hand for `sm` refuses."""
    if gpu.sm != sm:
        return Refusal(f"device is {gpu.name}: this variant is built for sm_{sm}a only")
    if case.dtype not in C_TYPES:
        return Refusal(f"dtype is {case.dtype}: this variant multiplies bf16 or fp16")
    if case.k % 8 or case.n % INTERLEAVED:
        return Refusal(f"n is {case.n} and k {case.k}: rows of y, x and w must be a multiple of 16 bytes")
    if case.experts > MAX_EXPERTS:
        return Refusal(f"experts is {case.experts}: this variant counts at most {MAX_EXPERTS}")
    return None


def pack_experts(case: GroupedCase, weight: "torch.Tensor") -> "torch.Tensor":
    """w as it is; for swiglu each expert's gate and up interleaved by 8 rows, [experts, 2n, k]."""
    return interleave_gate_up(weight) if case.epilogue == "swiglu" else weight
