"""torch's variants of matrix products: the plain call, Inductor's, and dynamic int8 on the CPU."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernels.hardware import Gpu
from kernels.ops import LinearCase
from kernels.registry import Peer, Refusal, Variant, check_params, register
from kernels.torch_compiled import BUILD_SECONDS, compiled, no_compiler

if TYPE_CHECKING:
    import torch


from typing import TYPE_CHECKING

from kernels.gemm.hopper import rounded
from kernels.quant.formats import FLOAT_SCALES


def _plain(case: LinearCase) -> "Callable[..., Any]":
    """Product and epilogue as eager torch calls. `quantise` gives (values e4m3 [m, n], scales float32 [m, 1])."""
    import torch.nn.functional as F

    from kernels.ops.base import EPSILON

    def product(
        x: "torch.Tensor", w: "torch.Tensor", bias: Any = None, residual: Any = None, eps: float = EPSILON
    ) -> Any:
        y = F.linear(x, w, None if case.normalises else bias)
        if case.normalises:
            y = y * (x.float().square().mean(dim=-1, keepdim=True) + eps).rsqrt().to(y.dtype)
            y = y if bias is None else y + bias
        return apply_epilogue(case, y, residual)

    return product


def apply_epilogue(case: LinearCase, y: "torch.Tensor", residual: Any) -> Any:
    """The epilogue after product and bias: the residual's sum, swiglu, or (values e4m3 [m, n], scales [m, 1])."""
    import torch.nn.functional as F

    from kernels.quant.scaled import of_x

    if case.epilogue == "residual":
        return y + residual
    if case.gates:
        gate, up = y.chunk(2, dim=-1)
        return F.silu(gate) * up
    return of_x(y, "row") if case.epilogue == "quantise" else y


def _unquantised(case: LinearCase) -> Refusal | None:
    if case.weights != case.dtype:
        return Refusal(f"weights is {case.weights} and dtype {case.dtype}: this variant multiplies equal types only")
    return None


@register
class TorchLinear(Peer):
    """F.linear (cuBLAS on a GPU, oneDNN on a CPU), followed by the epilogue."""

    name = "torch_linear"
    op = "linear"
    summary = "torch's linear, the epilogue after it"

    def serves(self, case: LinearCase, gpu: Gpu) -> Refusal | None:
        return _unquantised(case)

    def function(self, case: LinearCase) -> "Callable[..., torch.Tensor]":
        return _plain(case)


@register
class TorchLinearSeparate(Peer):
    """F.linear without a bias; a separate kernel adds it. cuBLAS has a bias epilogue, but few other epilogues."""

    name = "torch_linear_separate"
    op = "linear"
    summary = "torch's linear, the bias by a kernel after it"

    def serves(self, case: LinearCase, gpu: Gpu) -> Refusal | None:
        if case.epilogue != "bias":
            return Refusal(f"epilogue is {case.epilogue}: this variant adds a bias only")
        return _unquantised(case)

    def function(self, case: LinearCase) -> "Callable[..., torch.Tensor]":
        import torch.nn.functional as F

        return lambda x, w, bias: F.linear(x, w) + bias


@register
class TorchLinearCompiled(Variant):
    """torch's product compiled by Inductor, which fuses the epilogue and, on a GPU, autotunes its own GEMMs."""

    name = "torch_linear_compiled"
    op = "linear"
    summary = "torch's linear compiled by Inductor"
    peer = True
    build_seconds = BUILD_SECONDS

    def serves(self, case: LinearCase, gpu: Gpu) -> Refusal | None:
        return no_compiler(gpu) or _unquantised(case)

    def build(self, case: LinearCase, params: dict[str, Any]) -> "Callable[..., torch.Tensor]":
        """f(x, w, bias=None, residual=None, eps=1e-6) -> y. Takes `mode` of torch.compile; compiles on first call."""
        import torch

        check_params(self.name, params, ("mode",))
        mode = params.get("mode") or ("max-autotune-no-cudagraphs" if torch.cuda.is_available() else "default")
        return compiled(_plain(case), mode)


@register
class Int8DynamicCpu(Peer):
    """int8 weights times int8 activations (a scale per output and row). oneDNN sums exactly in int32, where need be in
    two passes. `w` is what `pack` returns: (values int8 [n, k], scales [n]).
    """

    name = "int8_dynamic_cpu"
    op = "linear"
    summary = "dynamic int8 product on the CPU"
    lossy = True

    def serves(self, case: LinearCase, gpu: Gpu) -> Refusal | None:
        if gpu.gpu_class != "cpu":
            return Refusal(f"device is {gpu.name}: this variant runs on the CPU only")
        if case.weights != "int8":
            return Refusal(f"weights is {case.weights}: this variant multiplies int8 weights only")
        if case.k == 1:
            return Refusal("k is 1: torch's int8 product gives wrong sums there")
        if case.epilogue not in ("none", "bias"):
            return Refusal(f"epilogue is {case.epilogue}: this variant knows none and bias only")
        return None

    def function(self, case: LinearCase) -> "Callable[..., torch.Tensor]":
        import torch

        summed = torch._int_mm if _sums_exactly(case) else _sum_of_halves

        def product(x: "torch.Tensor", w: "tuple[torch.Tensor, torch.Tensor]", bias: Any = None) -> "torch.Tensor":
            values, scales = w
            rows, row_scales = quantise_rows(x.reshape(-1, case.k))
            y = summed(rows, values.t()).float() * row_scales * scales
            if bias is not None:
                y = y + bias
            return y.to(x.dtype).reshape(*x.shape[:-1], case.n)

        return product

    def pack(
        self, case: LinearCase, params: dict[str, Any], weight: "torch.Tensor"
    ) -> "tuple[torch.Tensor, torch.Tensor]":
        values, scales = quantise_rows(weight)
        return values, scales[:, 0].contiguous()

    def rounded(self, case: LinearCase, params: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        dequantised = {
            name: values * scales for name in ("x", "w") for values, scales in (quantise_rows(arguments[name]),)
        }
        return arguments | dequantised


def _sums_exactly(case: LinearCase) -> bool:
    """Whether oneDNN sums int8's largest values exactly: without VNNI two products overflow 16 bits."""
    import torch

    rows, columns = (torch.full((count, case.k), 127, dtype=torch.int8) for count in (case.m, case.n))
    return bool((torch._int_mm(rows, columns.t()) == 127 * 127 * case.k).all())


def _sum_of_halves(rows: "torch.Tensor", columns: "torch.Tensor") -> "torch.Tensor":
    """rows @ columns of int8 in int32, by halves of columns: two products with halved values fit in 16 bits."""
    import torch

    half = columns >> 1
    return torch._int_mm(rows, half) + torch._int_mm(rows, columns - half)


def quantise_rows(x: "torch.Tensor") -> "tuple[torch.Tensor, torch.Tensor]":
    """int8 values [m, k] and float32 scales [m, 1] with x ≈ values · scales; symmetric, largest value at 127."""
    import torch

    wide = x.float()
    scales = wide.abs().amax(dim=-1, keepdim=True).clamp_min(1e-30) / 127
    return (wide / scales).round().to(torch.int8), scales


@register
class TorchScaled(Variant):
    """cuBLASLt's fp8 product; `fast` adds in the tensor cores' accumulators, shorter than float32."""

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

        check_params(self.name, params, ("fast",))
        fast = bool(params.get("fast", False))

        def product(x: Any, w: Any, bias: Any = None, residual: Any = None) -> Any:
            (x_values, x_scales), (w_values, w_scales) = x, w
            y = torch._scaled_mm(
                x_values, w_values.t(), scale_a=x_scales, scale_b=w_scales.t(), out_dtype=torch.bfloat16,
                use_fast_accum=fast,
            )  # fmt: skip
            return apply_epilogue(case, y if bias is None else y + bias, residual)

        return product
