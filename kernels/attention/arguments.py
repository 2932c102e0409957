"""What every attention variant checks of a call before it launches anything."""

from typing import TYPE_CHECKING

from kernels.check_args import expect_current
from kernels.ops import AttentionCase
from kernels.registry import Refusal

if TYPE_CHECKING:
    import torch


GRID_MOST = 65_535
"""Blocks of a grid along its second and third side."""


def too_many(batch: int) -> Refusal | None:
    """The refusal of more sequences than one side of a grid holds."""
    if batch <= GRID_MOST:
        return None
    return Refusal(f"batch is {batch}: this variant takes at most {GRID_MOST} sequences")


def check(case: AttentionCase, q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor") -> None:
    """Raises ValueError that names the argument whose shape, dtype, device or stride is not the case's."""
    from kernels.dtypes import DTYPES

    keys = (case.batch, case.kv_len, case.kv_heads, case.head_dim)
    shapes = {"q": (case.batch, case.q_len, case.heads, case.head_dim), "k": keys, "v": keys}
    for name, given in (("q", q), ("k", k), ("v", v)):
        if tuple(given.shape) != shapes[name]:
            raise ValueError(f"{name} has shape {list(given.shape)}, not {list(shapes[name])}")
        if given.dtype != DTYPES[case.dtype]:
            raise ValueError(f"{name} has dtype {given.dtype}, not {DTYPES[case.dtype]}")
        if given.device != q.device:
            raise ValueError(f"{name} is on {given.device} and q on {q.device}")
        expect_current(name, given)
        if given.stride(-1) != 1 and given.numel():
            raise ValueError(f"{name} has stride {given.stride(-1)} along head_dim, not 1")
