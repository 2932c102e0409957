"""`gemm_blackwell(_scaled)`: products by hand for sm_100a; compile and are emulated, never ran on the chip."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernels.blackwell.gemm_tiles import COLUMNS, EPILOGUES, SM, space, tile_of
from kernels.check_args import C_TYPES, check_served
from kernels.cuda.nvrtc import Build
from kernels.gemm.hopper import rounded
from kernels.gemm.hopper_tiles import INTERLEAVED, interleave_gate_up
from kernels.hardware import Gpu
from kernels.ops import LinearCase
from kernels.registry import Refusal, Variant, register

if TYPE_CHECKING:
    import torch

MULTIPLES = {None: 8, "tensor": 16, "row": 16, "block32": 32, "block16": 32}
"""What k is a multiple of, by the scales: rows of 16 bytes, and whole blocks."""

WEIGHTS = {"tensor": "fp8", "row": "fp8", "block32": "fp8", "block16": "nvfp4"}
"""The weights of each kind of scales."""


class _BlackwellVariant(Variant):
    """The base of the variants of gemm.cu."""

    op = "linear"
    page = "gemm-blackwell"
    kernels = ("gemm",)

    def serves(self, case: LinearCase, gpu: Gpu) -> Refusal | None:
        if gpu.sm != SM:
            return Refusal(f"device is {gpu.name}: this variant is built for sm_100a only")
        if case.dtype not in C_TYPES:
            return Refusal(f"dtype is {case.dtype}: this variant writes bf16 or fp16")
        if case.epilogue not in EPILOGUES:
            return Refusal(f"epilogue is {case.epilogue}: this variant has {', '.join(EPILOGUES)}")
        if case.n % INTERLEAVED:
            return Refusal(f"n is {case.n}: rows of y must be a multiple of 16 bytes")
        return None

    def cuda_builds(self, case: LinearCase, params: dict[str, Any], gpu: Gpu) -> list[Build]:
        from kernels.blackwell.gemm_call import build_of

        return [build_of(case, tile_of(case, params))]

    def space(self, case: LinearCase) -> list[dict[str, Any]]:
        return space(case)

    def build(self, case: LinearCase, params: dict[str, Any]) -> "Callable[..., Any]":
        """f(x [m, k], w, bias=None [n], residual=None [m, n]) -> y [m, n]; with scales x and w as `passed` and `pack`
        give.
        """
        from kernels.blackwell.gemm_call import BlackwellLinear

        check_served(self, case, SM)
        return BlackwellLinear(case, params)


@register
class GemmBlackwell(_BlackwellVariant):
    """Persistent, warp-specialised products of bf16 or fp16; docs/kernels/gemm-blackwell.md."""

    name = "gemm_blackwell"
    summary = "large products in tensor memory (sm_100a); compiles, emulated, never run on the chip"

    def serves(self, case: LinearCase, gpu: Gpu) -> Refusal | None:
        if (refusal := super().serves(case, gpu)) is not None:
            return refusal
        if case.weights != case.dtype:
            return Refusal(f"weights is {case.weights} and dtype {case.dtype}: this variant multiplies equal types")
        if case.k % MULTIPLES[None]:
            return Refusal(f"k is {case.k}: rows of x and w must be a multiple of 16 bytes")
        return None

    def pack(self, case: LinearCase, params: dict[str, Any], weight: "torch.Tensor") -> "torch.Tensor":
        """w unchanged; for swiglu as gemm_hopper's."""
        return interleave_gate_up(weight) if case.gates else weight


@register
class GemmBlackwellScaled(_BlackwellVariant):
    """Products of e4m3 operands with float32 scales, of MXFP8 and of NVFP4."""

    name = "gemm_blackwell_scaled"
    summary = "fp8, MXFP8 and NVFP4 products (sm_100a); compiles, emulated, never run on the chip"
    lossy = True

    def serves(self, case: LinearCase, gpu: Gpu) -> Refusal | None:
        if (refusal := super().serves(case, gpu)) is not None:
            return refusal
        if case.scales not in WEIGHTS or case.weights != WEIGHTS[case.scales]:
            return Refusal(
                f"weights is {case.weights} with {case.scaling}: fp8 with scales of the tensor, a row or 32 values, "
                "or nvfp4 with scales of 16 values"
            )
        if case.k % MULTIPLES[case.scales]:
            return Refusal(f"k is {case.k}: {case.scales} scales take multiples of {MULTIPLES[case.scales]}")
        return None

    def pack(self, case: LinearCase, params: dict[str, Any], weight: "torch.Tensor") -> "tuple[torch.Tensor, ...]":
        """w as `quant.scaled.of_w` or `quant.block_scaled.operand` gives it, gate and up interleaved for swiglu."""
        from kernels.quant import block_scaled, scaled

        rows = interleave_gate_up(weight) if case.gates else weight
        block = block_scaled.named(case.scales)
        return block_scaled.operand(rows, block, max(COLUMNS)) if block else scaled.of_w(rows, case.scales or "tensor")

    def rounded(self, case: LinearCase, params: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        from kernels.quant import block_scaled

        if block := block_scaled.named(case.scales):
            return arguments | {name: block_scaled.through(arguments[name], block) for name in ("x", "w")}
        return rounded(case, arguments)
