"""Captured passes with their memory, and steps that were launched."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kernels.server.execution.logprobs import Copied, CopiedPrompt
from kernels.server.execution.packed import PackedPass


class Captured(NamedTuple):
    """One shape: its pass, of several ranks the first one's; its graph; the device's memory of its fields, and the
    host's, to be used alternately; and what owns the buffers that the graph works on.
    """

    one_pass: PackedPass
    run: Callable[[], object]
    memory: Tensor
    host: "deque[HostBuffers]"
    owner: object


class HostBuffers(NamedTuple):
    """Memory on the host: the fields' bytes, the same as arrays by name, and the ids that come back."""

    memory: Tensor
    fields: dict[str, Any]
    ids: Tensor


@dataclass(frozen=True)
class LaunchedStep:
    """A launched step: its ids, log probabilities and those of prompts, the event after which they can be read, and
    which of the ids belong to its parts.
    """

    ids: Tensor
    draws: list[int]
    logprobs: Copied | None
    prompts: list[CopiedPrompt]
    event: "torch.cuda.Event | None"
