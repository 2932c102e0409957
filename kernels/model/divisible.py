"""Whether a model's sizes can be sharded over several ranks. Imports without torch."""

from collections.abc import Iterable


def indivisible(sizes: Iterable[tuple[str, int, int]], tensor_parallel_size: int) -> str:
    """The first of `sizes` (name, size, unit) that so many GPUs cannot divide, in a sentence; "" for none."""
    for name, size, unit in sizes:
        if size % (tensor_parallel_size * unit):
            return f"{name} {size}: {tensor_parallel_size} GPUs need a multiple of {tensor_parallel_size * unit}"
    return ""
