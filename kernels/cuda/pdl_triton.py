"""Triton's kernels as dependent launches: begun while the kernel ahead runs, they wait before they touch memory."""

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

LEAST_SM = (9, 0)


@triton.jit
def depend(OVERLAP: tl.constexpr):
    """First in a kernel: lets the next one start, and waits until those ahead have ended."""
    if OVERLAP:
        gdc_launch_dependents()
        gdc_wait()


def overlapping(overlap: bool, device: torch.device) -> dict[str, Any]:
    """What a launch of such a kernel is given; an ordinary one where the device has no dependent launches."""
    if overlap and device.type == "cuda" and _has_them(device.index):
        return {"OVERLAP": True, "launch_pdl": True}
    return {"OVERLAP": False}


@cache
def _has_them(index: int) -> bool:
    return torch.cuda.get_device_capability(index) >= LEAST_SM
