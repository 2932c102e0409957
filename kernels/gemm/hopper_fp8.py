"""`gemm_hopper_fp8`: e4m3 times e4m3 with scales for each tensor, row or block, on the same kernel as `gemm_hopper`."""

from typing import TYPE_CHECKING, Any

from kernels.check_args import C_TYPES
from kernels.gemm.hopper import HopperVariant
from kernels.gemm.hopper_tiles import INTERLEAVED, interleaved_gate_up
from kernels.hardware import Gpu
from kernels.ops import LinearCase
from kernels.quant.formats import FLOAT_SCALES
from kernels.registry import Refusal, register

if TYPE_CHECKING:
    import torch


@register
class GemmHopperFp8(HopperVariant):
    """Products of e4m3 operands. `block` scales are applied to every 128 values of k, in a second accumulator."""

    name = "gemm_hopper_fp8"
    summary = "large fp8 products on wgmma, scales for each tensor, row or block"
    lossy = True

    def serves(self, case: LinearCase, gpu: Gpu) -> Refusal | None:
        if gpu.sm != 90:
            return Refusal(f"device is {gpu.name}: this variant is built for sm_90a only")
        if case.weights != "fp8" or case.scales not in FLOAT_SCALES:
            return Refusal(f"weights is {case.weights} with {case.scaling}: this variant takes x and w in e4m3")
        if case.dtype not in C_TYPES:
            return Refusal(f"dtype is {case.dtype}: this variant writes bf16 or fp16")
        if case.k % 16:
            return Refusal(f"k is {case.k}: rows of x and w must be a multiple of 16 bytes")
        if case.normalises or (case.scales == "block" and case.gates):
            return Refusal(f"epilogue is {case.epilogue}: this variant does not have it for {case.scales} scales")
        if case.gates and case.n % INTERLEAVED:
            return Refusal(f"n is {case.n}: gate and up are interleaved by {INTERLEAVED} rows")
        return None

    def pack(
        self, case: LinearCase, params: dict[str, Any], weight: "torch.Tensor"
    ) -> "tuple[torch.Tensor, torch.Tensor]":
        """(values e4m3 [n, k], scales) as `quant.scaled.of_w` gives them, gate and up interleaved for swiglu."""
        from kernels.quant import scaled

        return scaled.of_w(interleaved_gate_up(weight) if case.gates else weight, _granularity(case))

    def rounded(self, case: LinearCase, params: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        return rounded(case, arguments)


def rounded(case: LinearCase, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments rounded to the values that e4m3 with its scales represents."""
    from kernels.quant import scaled

    granularity = _granularity(case)
    values = {
        "x": scaled.dequantise(scaled.of_x(arguments["x"], granularity)),
        "w": scaled.dequantise(scaled.of_w(arguments["w"], granularity)),
    }
    return arguments | values


def _granularity(case: LinearCase) -> Any:
    if case.scales is None:
        raise ValueError(f"scales is missing: {case.key}")
    return case.scales
