"""The outputs of a call: new ones are made, and given ones checked, from their shapes and dtypes."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from kernels.check_args import check_out


class Output(NamedTuple):
    """One output: contiguous, of this shape and dtype. An error message names it by `name`."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype


def allocation(outputs: Sequence[Output], device: torch.device) -> Callable[[], Any]:
    """Makes new outputs: a tensor, or a tuple where there are several."""
    made = [partial(torch.empty, each.shape, dtype=each.dtype, device=device) for each in outputs]
    return made[0] if len(made) == 1 else lambda: tuple(make() for make in made)


def check_outputs(given: Any, outputs: Sequence[Output], device: torch.device) -> None:
    """Checks the `out` of a call, if given: in the form that `allocation` makes, on the device, at multiples of 16
    bytes. Raises ValueError that names what is wrong.
    """
    if given is None:
        return
    found = (given,) if len(outputs) == 1 else given
    if not isinstance(found, tuple) or len(found) != len(outputs):
        raise ValueError(f"out is not the {len(outputs)} outputs {', '.join(each.name for each in outputs)}")
    for tensor, each in zip(found, outputs, strict=True):
        check_out(tensor, each.shape, (each.dtype,), each.name, device)
