"""torch's variant of e4m3 operands with scales: `torch._scaled_mm` (cuBLASLt, CUTLASS), followed by the epilogue."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernels.gemm.hopper import rounded
from kernels.hardware import Gpu
from kernels.ops import LinearCase
from kernels.quant.formats import FLOAT_SCALES
from kernels.registry import Refusal, Variant, check_params, register

if TYPE_CHECKING:
    import torch


@register
class TorchScaled(Variant):
    """cuBLASLt's fp8 product. With `fast` it adds in the tensor cores' own accumulators, which are shorter than
    float32.
    """

    name = "torch_scaled_mm"
    op = "linear"
    summary = "torch's scaled fp8 product, the epilogue after it"
    peer = True
    lossy = True

    def serves(self, case: LinearCase, gpu: Gpu) -> Refusal | None:
        if gpu.sm < 89:
            return Refusal(f"device is {gpu.name}: fp8 products need compute capability 8.9")
        if case.weights != "fp8" or case.scales not in FLOAT_SCALES or case.dtype != "bf16":
            given = f"weights is {case.weights} with {case.scaling}, dtype {case.dtype}"
            return Refusal(f"{given}: this variant takes x and w in e4m3 and writes bf16")
        if case.k % 16 or case.n % 16 or (case.scales == "block" and case.k % 512):
            return Refusal(f"n is {case.n} and k {case.k}: multiples of 16, and of 512 for k with block scales")
        if case.m % 4 and case.scales == "block":
            return Refusal(f"m is {case.m}: with block scales cuBLASLt takes rows of scales of 16 bytes only")
        if case.normalises:
            return Refusal(f"epilogue is {case.epilogue}: rows of e4m3 values are not normalised")
        return None

    def space(self, case: LinearCase) -> list[dict[str, Any]]:
        return [{"fast": False}] if case.scales == "block" else [{"fast": True}, {"fast": False}]

    def pack(
        self, case: LinearCase, params: dict[str, Any], weight: "torch.Tensor"
    ) -> "tuple[torch.Tensor, torch.Tensor]":
        from kernels.quant import scaled

        return scaled.of_w(weight, case.scales or "tensor")

    def rounded(self, case: LinearCase, params: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        return rounded(case, arguments)

    def build(self, case: LinearCase, params: dict[str, Any]) -> "Callable[..., Any]":
        """f(x, w, bias=None, residual=None) -> y; x and w are pairs (values, scales). Takes `fast`."""
        import torch

        from kernels.gemm.torch_linear import finished

        check_params(self.name, params, ("fast",))
        fast = bool(params.get("fast", False))

        def product(x: Any, w: Any, bias: Any = None, residual: Any = None) -> Any:
            (x_values, x_scales), (w_values, w_scales) = x, w
            y = torch._scaled_mm(
                x_values, w_values.t(), scale_a=x_scales, scale_b=w_scales.t(), out_dtype=torch.bfloat16,
                use_fast_accum=fast,
            )  # fmt: skip
            return finished(case, y if bias is None else y + bias, residual)

        return product
