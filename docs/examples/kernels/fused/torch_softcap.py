"""What torch offers for the soft cap."""

from collections.abc import Callable
from typing import Any

from kernels.check_args import check_tensor
from kernels.hardware import Gpu
from kernels.ops.softcap import SoftcapCase
from kernels.registry import Peer, Refusal, register


@register
class TorchSoftcap(Peer):
    """A division, a tanh and a product."""

    name = "torch_softcap"
    op = "softcap"
    summary = "torch's division, tanh and product, one after the other"

    def serves(self, case: SoftcapCase, gpu: Gpu) -> Refusal | None:
        return None

    def function(self, case: SoftcapCase) -> Callable[..., Any]:
        import torch

        from kernels.dtypes import DTYPES

        def softcap(x: Any) -> Any:
            check_tensor("x", x, (case.m, case.n), (DTYPES[case.dtype],), x.device, "any")
            return torch.tanh(x / case.cap) * case.cap

        return softcap
