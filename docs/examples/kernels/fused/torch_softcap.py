"""What torch offers for the soft cap."""

from collections.abc import Callable
from typing import Any

from kernels.check_args import check_tensor, merge_params
from kernels.hardware import Gpu
from kernels.ops.softcap import SoftcapCase
from kernels.registry import Refusal, Variant, register


@register
class TorchSoftcap(Variant):
    """A division, a tanh and a product."""

    name = "torch_softcap"
    op = "softcap"
    summary = "torch's division, tanh and product, one after the other"
    peer = True

    def serves(self, case: SoftcapCase, gpu: Gpu) -> Refusal | None:
        return None

    def build(self, case: SoftcapCase, params: dict[str, Any]) -> Callable[..., Any]:
        """f(x) -> y. Takes no params."""
        import torch

        from kernels.dtypes import DTYPES

        merge_params(self.name, params, {})

        def softcap(x: Any) -> Any:
            check_tensor("x", x, (case.m, case.n), (DTYPES[case.dtype],), x.device, "any")
            return torch.tanh(x / case.cap) * case.cap

        return softcap
