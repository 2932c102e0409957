"""Memory full of NaN for the gate: it exposes outputs that are not written, and memory that is read before it is
written.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import torch


def poison(shapes: list[tuple[torch.Size, torch.dtype]], device: torch.device, copies: int = 4) -> None:
    """Leaves freed blocks of the outputs' sizes full of NaN bytes, so that the allocator returns them next."""
    blocks = []
    for shape, dtype in shapes:
        size = max(1, shape.numel()) * dtype.itemsize
        blocks += [torch.full((size,), 0xFF, dtype=torch.uint8, device=device) for _ in range(copies)]
    del blocks


class PoisonedEmpty:
    """A context in which torch.empty and its relatives return memory full of NaN (-1 for integers).

    It replaces the functions by name. A dispatch mode would permanently stop Dynamo from compiling functions called
    under it.
    """

    _NAMES = ((torch, ("empty", "empty_like", "empty_strided")), (torch.Tensor, ("new_empty", "new_empty_strided")))

    def __enter__(self) -> None:
        self._originals = [(owner, name, getattr(owner, name)) for owner, names in self._NAMES for name in names]
        for owner, name, original in self._originals:
            setattr(owner, name, _poisoned(original))

    def __exit__(self, *_: object) -> None:
        for owner, name, original in self._originals:
            setattr(owner, name, original)


def _poisoned(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @functools.wraps(original)
    def made(*arguments: Any, **keywords: Any) -> torch.Tensor:
        tensor = original(*arguments, **keywords)
        return tensor.fill_(math.nan if tensor.is_floating_point() else -1)

    return made
