"""Caches the oracle of given inputs, so that all variants proven on them share it."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from kernels.ops.base import Arguments
from kernels.ops.oracle import Oracle

ReferenceAnswer = tuple[Oracle, float | None]
"""The oracle, and the relative change that rounding the inputs causes (None: nothing was rounded)."""


class ReferenceCache:
    """Oracles by case, seed, magnitude and the exact values of the inputs, which a variant may have rounded.

    Holds copies of the inputs: drop it with the case. A new oracle is computed inside the block that `within` returns.
    """

    def __init__(self, within: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        self._within = within
        self._kept: dict[tuple[Any, ...], list[tuple[Arguments, ReferenceAnswer]]] = {}

    def computing_within(self, within: Callable[[], AbstractContextManager[None]]) -> "ReferenceCache":
        """A cache of the same oracles, which computes new ones inside another block."""
        other = ReferenceCache(within)
        other._kept = self._kept
        return other

    def of(self, key: tuple[Any, ...], used: Arguments, compute: Callable[[], ReferenceAnswer]) -> ReferenceAnswer:
        """The oracle of these inputs: cached if the inputs are equal bit for bit, else the result of `compute`."""
        entries = self._kept.setdefault(key, [])
        for copies, answer in entries:
            if copies.keys() == used.keys() and all(same(copies[name], value) for name, value in used.items()):
                return answer
        copies = {name: copy_tensors(value) for name, value in used.items()}
        with self._within():
            answer = compute()
        entries.append((copies, answer))
        return answer


def copy_tensors(value: Any) -> Any:
    """A tensor, or a tuple of them, with memory of its own."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    return tuple(copy_tensors(element) for element in value) if isinstance(value, tuple | list) else value


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
