"""Triton kernels as dependent launches: they begin while the previous kernel runs, and wait before they use memory."""

from functools import cache

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from kernels.cuda.triton_build import compiled_for

MIN_SM = (9, 0)


@triton.jit
def pdl_prologue(PDL: tl.constexpr):
    """The first call of a kernel: lets the next kernel start, and waits until the previous ones have ended."""
    if PDL:
        gdc_launch_dependents()
        gdc_wait()


def uses_pdl(pdl: bool, device: torch.device) -> bool:
    """Whether a launch is a dependent one: `pdl` asks for it, and the device has dependent launches. The kernel's PDL
    and the launch's `launch_pdl` both take it. torch's meta device stands for the GPU that is compiled for.
    """
    if device.type == "meta" and (gpu := compiled_for()) is not None:
        return pdl and gpu.sm >= 10 * MIN_SM[0]
    return pdl and device.type == "cuda" and _supports_pdl(device.index)


@cache
def _supports_pdl(index: int) -> bool:
    return torch.cuda.get_device_capability(index) >= MIN_SM
