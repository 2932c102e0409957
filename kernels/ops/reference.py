"""Each op in plain torch, in a given precision: float64 as the truth, the case's own dtype as torch's best."""

import math
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from kernels.ops.base import BaseCase, Outputs


def compute(case: "BaseCase", arguments: dict[str, Any], dtype: torch.dtype = torch.float64) -> "Outputs":
    """The op's outputs from the call's arguments, calculated in `dtype`. Raises ValueError for an op without one."""
    wide = {name: value.to(dtype) for name, value in arguments.items() if value.is_floating_point()}
    return case.reference(arguments | wide)


def rounding(case: "BaseCase", arguments: dict[str, Any]) -> float:
    """The relative error that rounding alone may leave: half the dtype's epsilon or, where smaller, the random walk of
    a float32 sum over the longest sum, epsilon·√length.
    """
    dtype = next(iter(arguments.values())).dtype
    return max(torch.finfo(dtype).eps / 2, torch.finfo(torch.float32).eps * math.sqrt(case.longest_sum))
