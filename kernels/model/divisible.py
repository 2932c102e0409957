"""Whether a model's sizes can be sharded over several ranks. Imports without torch."""

from collections.abc import Iterable


def indivisible(sizes: Iterable[tuple[str, int, int]], tensor_parallel_size: int) -> str:
    """The sentence about the first size that so many GPUs cannot divide; "" where all can be.

    `sizes` are (name, size, unit): each rank gets a multiple of `unit`.
    """
    for name, size, unit in sizes:
        if size % (tensor_parallel_size * unit):
            return f"{name} {size}: {tensor_parallel_size} GPUs need a multiple of {tensor_parallel_size * unit}"
    return ""
