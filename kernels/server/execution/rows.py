"""Copies rows of keys and values between pages and the caches of a megakernel."""

from collections.abc import Sequence

from torch import Tensor


def move_rows(at: Tensor, source: Sequence[Tensor], target: Sequence[Tensor]) -> None:
    """Copies rows at[0] of source to rows at[1] of target, at [2, count] int64.

    source and target are keys and values [layers, any, any, kv_heads, head_dim], contiguous; a row is one of their
    second and third dimensions together. On a GPU a row beyond them is not seen.
    """
    if not at.shape[1]:
        return
    if source[0].is_cuda:
        from kernels.server.execution.rows_triton import move

        move(at, source, target)
        return
    for old, new in zip(source, target, strict=True):
        new.flatten(1, 2)[:, at[1]] = old.flatten(1, 2)[:, at[0]].to(new.dtype)
