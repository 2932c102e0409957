"""A tensor of heads as one argument of a Triton kernel: a plain tuple, since Triton 3.6 rebuilds each named one, which
the kernel names by `Strided(*q)`.
"""

from typing import Any, NamedTuple

import torch


class Strided(NamedTuple):
    """A tensor [sequences or pages, tokens, heads, head_dim]: its pointer, and its strides but the last, which is 1."""

    data: Any
    first: Any
    token: Any
    head: Any


def strided(tensor: torch.Tensor) -> tuple[torch.Tensor, int, int, int]:
    """The fields of `Strided` for a launch."""
    first, token, head, _ = tensor.stride()
    return tensor, first, token, head
