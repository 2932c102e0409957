"""`gemm_hopper`: large matrix products by hand for sm_90a, with the epilogue in the same pass."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernels.check_args import C_TYPES, check_served
from kernels.cuda.nvrtc import Build
from kernels.gemm.hopper_tiles import INTERLEAVED, interleave_gate_up, space, tile_of
from kernels.hardware import Gpu
from kernels.ops import LinearCase
from kernels.quant.formats import FLOAT_SCALES
from kernels.registry import Refusal, Variant, register

if TYPE_CHECKING:
    import torch


class HopperVariant(Variant):
    """The base of the variants of hopper.cu and hopper_ping_pong.cu."""

    op = "linear"
    page = "gemm-hopper"
    kernels = ("gemm",)

    def cuda_builds(self, case: LinearCase, params: dict[str, Any], gpu: Gpu) -> list[Build]:
        from kernels.gemm.hopper_call import build_of

        return [build_of(case, tile_of(case, params))]

    def space(self, case: LinearCase) -> list[dict[str, Any]]:
        return space(case)

    def build(self, case: LinearCase, params: dict[str, Any]) -> "Callable[..., Any]":
        """f(x [m, k], w, bias=None [n], residual=None [m, n], eps=1e-6) -> y [m, n]; with `scales` x and w are pairs.
        `quantise` gives (values e4m3, scales float32 [m, ⌈n / 128⌉]). Raises ValueError that names the argument.
        """
        from kernels.gemm.hopper_call import HopperLinear

        check_served(self, case)
        return HopperLinear(case, params)


@register
class GemmHopper(HopperVariant):
    """Persistent, warp-specialised products of bf16 or fp16; docs/kernels/gemm-hopper.md."""

    name = "gemm_hopper"
    summary = "large products on wgmma and the copy engine, epilogue fused"

    def serves(self, case: LinearCase, gpu: Gpu) -> Refusal | None:
        if gpu.sm != 90:
            return Refusal(f"device is {gpu.name}: this variant is built for sm_90a only")
        if case.dtype not in C_TYPES or case.weights != case.dtype:
            return Refusal(f"dtype is {case.dtype} and weights {case.weights}: bf16 times bf16 or fp16 times fp16 only")
        if case.k % 8:
            return Refusal(f"k is {case.k}: rows of x and w must be a multiple of 16 bytes")
        if case.gates and case.n % INTERLEAVED:
            return Refusal(f"n is {case.n}: gate and up are interleaved by {INTERLEAVED} rows")
        return None

    def pack(self, case: LinearCase, params: dict[str, Any], weight: "torch.Tensor") -> "torch.Tensor":
        """w unchanged; for swiglu [2n, k] with 8 rows of gate, then the 8 matching rows of up, and so on."""
        return interleave_gate_up(weight) if case.gates else weight


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

        return scaled.of_w(interleave_gate_up(weight) if case.gates else weight, _granularity(case))

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
