"""How the host reads the ids of every step, with the time at which it could read them."""

import time
from abc import ABC, abstractmethod

import torch
from torch import Tensor

LOOK_NS = 1_000_000
"""How many ns an id may take before the host checks whether the step has ended without it."""


class TokenReader(ABC):
    """Call `enqueue` after each launched step; the host reads later."""

    @abstractmethod
    def enqueue(self, token: Tensor) -> None:
        """Tells the reader that a step was launched which leaves its ids in token [b, 1]."""

    @abstractmethod
    def finish(self) -> tuple[list[list[int]], list[int]]:
        """The ids of every step, a row each, and the host's monotonic clock when they could be read."""


class CpuReader(TokenReader):
    """Reads ids as soon as a step is done."""

    def __init__(self) -> None:
        self._rows: list[list[int]] = []
        self._times_ns: list[int] = []

    def enqueue(self, token: Tensor) -> None:
        self._rows.append(token[:, 0].tolist())
        self._times_ns.append(time.monotonic_ns())

    def finish(self) -> tuple[list[list[int]], list[int]]:
        return self._rows, self._times_ns


class GpuReader(TokenReader):
    """Copies ids to pinned memory after each step. Reads them one step later, when the copy's event has passed."""

    def __init__(self, tokens: int, batch: int) -> None:
        self._host = torch.empty(tokens, batch, dtype=torch.int64, pin_memory=True)
        self._events = [torch.cuda.Event() for _ in range(tokens)]
        self._times_ns: list[int] = []
        self._enqueued = 0

    def enqueue(self, token: Tensor) -> None:
        self._host[self._enqueued].copy_(token[:, 0], non_blocking=True)
        self._events[self._enqueued].record()
        self._enqueued += 1
        if self._enqueued > 1:
            self._read()

    def _read(self) -> None:
        self._events[len(self._times_ns)].synchronize()
        self._times_ns.append(time.monotonic_ns())

    def finish(self) -> tuple[list[list[int]], list[int]]:
        while len(self._times_ns) < self._enqueued:
            self._read()
        return self._host.tolist(), self._times_ns


class SeenReader(TokenReader):
    """Polls `seen` [rows, b] int64, pinned memory into which the steps write their ids, from row `first` on."""

    def __init__(self, seen: Tensor, first: int, tokens: int) -> None:
        seen[first : first + tokens] = -1
        self._rows = seen[first : first + tokens].numpy()
        self._times_ns: list[int] = []
        self._enqueued = 0

    def enqueue(self, token: Tensor) -> None:
        self._enqueued += 1
        if self._enqueued > 1:
            self._read()

    def _read(self) -> None:
        row, began = self._rows[len(self._times_ns)], time.monotonic_ns()
        while row.min() < 0:
            if time.monotonic_ns() - began > LOOK_NS and torch.cuda.current_stream().query() and row.min() < 0:
                raise RuntimeError(f"step {len(self._times_ns)} has ended without its ids")
        self._times_ns.append(time.monotonic_ns())

    def finish(self) -> tuple[list[list[int]], list[int]]:
        while len(self._times_ns) < self._enqueued:
            self._read()
        return self._rows.tolist(), self._times_ns
