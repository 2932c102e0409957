"""What surrounds the call of a variant: its inputs are written, its stream is held, its answer or error is taken."""

import math
from typing import Any

import torch

from kernels.ops.base import Arguments, BaseCase, Outputs
from kernels.ops.oracle import Failed
from kernels.proof.reference_cache import same

HOLD_CYCLES = 2_000_000
"""Clock cycles for which a stream is held, about 1 ms: until the host has queued a call and what follows it."""


def hold(device: torch.device) -> None:
    """Keeps a stream busy until all is queued. Work on other streams that does not wait reads inputs too early."""
    if device.type == "cuda":
        torch.cuda._sleep(HOLD_CYCLES)


def wait(device: torch.device) -> None:
    """Waits for the current stream of a GPU, and for no other: a variant has to join its own streams."""
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()


def outputs_of(case: BaseCase, arguments: Arguments, answer: Any) -> Outputs:
    """The outputs of a call as the reference has them, and copies of the slots that it wrote."""
    outputs = answer if isinstance(answer, tuple) else (answer,)
    return *case.comparable(outputs), *copy_written_slots(case, arguments)


def copy_outputs(outputs: Outputs) -> Outputs:
    """Copies of the outputs in the order of the current stream: of work that it does not wait for, what is there."""
    return tuple(output.clone() for output in outputs)


def first_line(error: Exception) -> str:
    """An error in one line: its type, and the first line of its message, cut off after 200 characters."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200] if lines else 'no message'}"


def poison_answer(answer: Any) -> None:
    """Fills the tensors of an answer with NaN (-1 for integers): the memory's next answer is not right by chance."""
    for output in answer if isinstance(answer, tuple | list) else (answer,):
        if isinstance(output, torch.Tensor):
            one_byte = output.dtype.itemsize == 1
            values = output.data.view(torch.uint8) if one_byte else output.data
            values.fill_(0xFF if one_byte else math.nan if output.is_floating_point() else -1)


def overwrite(target: Any, source: Any) -> None:
    """Copies values past torch's version counter, as a captured graph does. Raises Failed for other arguments."""
    if isinstance(target, torch.Tensor):
        target.data.copy_(source)
    elif isinstance(target, tuple | list):
        for one, two in zip(target, source, strict=True):
            overwrite(one, two)
    else:
        raise Failed("It packs its weight into something other than tensors, which the gate cannot check.")


CACHES = ("k_cache", "v_cache")


def copy_written_slots(case: BaseCase, arguments: Arguments) -> Outputs:
    """Copies of a call's slots [batch, q_len, kv_heads, head_dim], fp8 widened; () for other ops."""
    at = case.written_slots(arguments)
    if at is None:
        return ()
    rows = (arguments[name][at] for name in CACHES)
    return tuple(row.float() if row.dtype.itemsize == 1 else row for row in rows)


def rest_is_unchanged(case: BaseCase, name: str, before: torch.Tensor, arguments: Arguments) -> bool:
    """Whether argument `name` is a cache of the call that differs from `before` only in the call's own slots."""
    at = case.written_slots(arguments)
    if name not in CACHES or at is None:
        return False
    restored = arguments[name].clone()
    restored[at] = before[at]
    return same(restored, before)
