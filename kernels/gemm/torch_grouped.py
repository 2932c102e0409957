"""torch's variants for a mixture of experts: a loop of products, and `torch._grouped_mm`."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kernels.hardware import Gpu
from kernels.ops import GroupedCase
from kernels.registry import Peer, Refusal, register
from kernels.torch_compiled import BUILD_SECONDS, compiled

if TYPE_CHECKING:
    import torch


def _gated(case: GroupedCase, y: "torch.Tensor") -> "torch.Tensor":
    import torch.nn.functional as F

    if case.epilogue == "none":
        return y
    gate, up = y.chunk(2, dim=-1)
    return F.silu(gate) * up


def operands_refusal(case: GroupedCase) -> Refusal | None:
    """The refusal of weights in another precision, of a bias, and of rows that are to be gathered."""
    if case.scales is not None or case.weights is not None:
        given = f"scales is {case.scales}" if case.scales else f"weights is {case.weights}"
        return Refusal(f"{given}: this variant multiplies x and w in the case's dtype")
    if case.adds_bias:
        return Refusal(f"epilogue is {case.epilogue}: this variant adds no bias")
    return Refusal("gathers is True: this variant takes x sorted by expert") if case.gathers else None


@register
class TorchGroupedLoop(Peer):
    """torch.mm (cuBLAS on a GPU) once for each expert with rows; reads `offs` on the host."""

    name = "torch_grouped_loop"
    op = "grouped"
    summary = "a loop of torch.mm over the experts"

    def serves(self, case: GroupedCase, gpu: Gpu) -> Refusal | None:
        return operands_refusal(case)

    def function(self, case: GroupedCase) -> "Callable[..., torch.Tensor]":
        import torch

        def product(x: "torch.Tensor", w: "torch.Tensor", offs: "torch.Tensor") -> "torch.Tensor":
            y = torch.empty(case.rows, case.weight_rows, dtype=x.dtype, device=x.device)
            start = 0
            for expert, end in enumerate(offs.tolist()):
                if end > start:
                    torch.mm(x[start:end], w[expert].t(), out=y[start:end])
                start = end
            return _gated(case, y)

        return product


@register
class TorchGrouped(Peer):
    """torch's grouped product (CUTLASS), followed by the gate."""

    name = "torch_grouped_mm"
    op = "grouped"
    summary = "torch._grouped_mm over the experts"
    device_lengths = True

    def serves(self, case: GroupedCase, gpu: Gpu) -> Refusal | None:
        if gpu.sm != 90:
            return Refusal(f"device is {gpu.name}: torch's grouped product is built for compute capability 9.0")
        if case.dtype != "bf16":
            return Refusal(f"dtype is {case.dtype}: torch's grouped product takes bf16")
        if case.k % 8 or case.n % 8 or not case.rows:
            return Refusal(
                f"rows is {case.rows}, n {case.n} and k {case.k}: it takes a row or more, and n and k in multiples of 8"
            )
        return operands_refusal(case)

    def function(self, case: GroupedCase) -> "Callable[..., torch.Tensor]":
        import torch

        return lambda x, w, offs: _gated(case, torch._grouped_mm(x, w.transpose(-2, -1), offs=offs))


@register
class TorchGroupedCompiled(TorchGrouped):
    """`TorchGrouped` compiled by Inductor, which makes one kernel of the gate."""

    name = "torch_grouped_mm_compiled"
    summary = "torch._grouped_mm and its gate compiled by Inductor"
    build_seconds = BUILD_SECONDS

    def function(self, case: GroupedCase) -> "Callable[..., torch.Tensor]":
        return compiled(super().function(case))
