"""Keeps the oracle of given inputs, so that it is computed once for all variants that are proven on them."""

from collections.abc import Callable
from typing import Any

import torch

from kernels.ops.base import Arguments
from kernels.ops.oracle import Oracle

Answer = tuple[Oracle, float | None]
"""The oracle, and what rounding the inputs alone changes (None: nothing was rounded)."""


class ReferenceCache:
    """Answers by the case, seed and magnitude of the inputs and by their very values, which a variant may have rounded.

    Holds copies of the inputs: it is to be dropped with the case.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], list[tuple[Arguments, Answer]]] = {}

    def of(self, key: tuple[Any, ...], used: Arguments, compute: Callable[[], Answer]) -> Answer:
        """The answer for these inputs: an earlier one where they are equal bit for bit, else what `compute` gives."""
        kept = self._kept.setdefault(key, [])
        for held, answer in kept:
            if held.keys() == used.keys() and all(same(held[name], value) for name, value in used.items()):
                return answer
        held, answer = {name: copied(value) for name, value in used.items()}, compute()
        kept.append((held, answer))
        return answer


def copied(value: Any) -> Any:
    """A tensor, or a tuple of them, with memory of its own."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    return tuple(copied(each) for each in value) if isinstance(value, tuple | list) else value


def same(one: Any, two: Any) -> bool:
    """Whether two arguments are equal bit for bit."""
    if isinstance(one, torch.Tensor):
        return one.shape == two.shape and one.dtype == two.dtype and torch.equal(_bits(one), _bits(two))
    if isinstance(one, tuple | list):
        return len(one) == len(two) and all(same(a, b) for a, b in zip(one, two, strict=True))
    return bool(one == two)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's bytes, so that NaN equals itself."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)
