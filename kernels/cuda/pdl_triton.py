"""Triton kernels as dependent launches: they begin while the previous kernel runs, and wait before they use memory."""

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

LEAST_SM = (9, 0)


@triton.jit
def pdl_prologue(PDL: tl.constexpr):
    """The first call of a kernel: lets the next kernel start, and waits until the previous ones have ended."""
    if PDL:
        gdc_launch_dependents()
        gdc_wait()


def pdl_options(pdl: bool, device: torch.device) -> dict[str, Any]:
    """What a launch of such a kernel is given; an ordinary one where the device has no dependent launches."""
    if pdl and device.type == "cuda" and _supports_pdl(device.index):
        return {"PDL": True, "launch_pdl": True}
    return {"PDL": False}


@cache
def _supports_pdl(index: int) -> bool:
    return torch.cuda.get_device_capability(index) >= LEAST_SM
