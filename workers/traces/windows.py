"""Early, middle and late decode steps of a request, traced in place of all of them.

A decode step costs more the longer its cache is. The windows lie evenly around the request's middle, so that the mean
cache length of their steps is that of all steps, and totals that grow evenly with it come out right.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch

from kernels.model.tensor_parallel import shards_of
from workers.traces import attribution, capture, reader
from workers.traces.attribution import DeviceWork
from workers.traces.capture import REQUESTS_TIMED
from workers.traces.op_counter import CountedOp
from workers.traces.reader import Trace
from workers.traces.table import TraceScale

MAX_STEPS = 12
"""Up to this many decode steps are all traced."""


class Window(NamedTuple):
    """Neighbouring decode steps: `skipped` lie before them, `steps` are traced."""

    skipped: int
    steps: int


def windows(steps: int) -> list[Window]:
    """The windows of a request with `steps` decode steps: the first steps, those around the middle, the last."""
    if steps <= MAX_STEPS:
        return [Window(0, steps)]
    size = 3 if steps % 2 else 4  # the middle window is exactly in the middle: steps - size is even
    return [Window(0, size), Window((steps - size) // 2, size), Window(steps - size, size)]


def longer(prompt: torch.Tensor, tokens: int) -> torch.Tensor:
    """The prompt [batch, length] with its own tokens repeated behind it until there are `tokens` more."""
    length = prompt.shape[1] + tokens
    return prompt.repeat(1, -(-length // prompt.shape[1]))[:, :length]


@dataclass
class TracedWindows:
    """What ran in the windows. Times in ms: `plain_ms` without the profiler, `traced_ms` with it, prompts included."""

    work: list[DeviceWork] = field(default_factory=list)
    counted: list[CountedOp] = field(default_factory=list)
    steps: int = 0
    plain_ms: float = 0.0
    traced_ms: float = 0.0
    left_out: list[Window] = field(default_factory=list)
    cut_short: bool = False
    """Whether later windows were not traced, for want of time."""
    first: Trace = field(default_factory=Trace)

    def add(self, window: Window, trace: Trace, work: list[DeviceWork], counted: list[CountedOp]) -> None:
        """Adds what ran in a window. Where steps were skipped, its prompt is not the request's and is left out."""
        if not self.steps:
            self.first = trace
        self.work += [piece for piece in work if not window.skipped or piece.phase == "decode"]
        self.counted += [op for op in counted if not window.skipped or op.phase == "decode"]
        self.steps += window.steps

    @property
    def on_gpu(self) -> bool:
        """Whether kernels were launched; on a CPU operations are timed on the host."""
        return any(piece.launch >= 0 for piece in self.work)

    def scale(self, steps: int) -> TraceScale:
        """What leads from the traced times to those of a whole request of `steps` decode steps."""
        host = 1.0 if self.on_gpu else min(1.0, self.plain_ms / self.traced_ms)
        return TraceScale(decode=steps / self.steps if self.steps else 1.0, host=host)


def sample(
    model: torch.nn.Module,
    generates: bool,
    planned: Sequence[Window],
    request: Callable[[Window], Callable[[], float]],
    folder: Path,
    keep_going: Callable[[], bool] = lambda: True,
) -> TracedWindows:
    """Counts and traces the windows. `request` returns, for a window, a function that runs it and returns its ms.

    A window with skipped steps is a request whose prompt is longer by as many tokens. The traces are written as
    `trace-0.json` and so on into `folder`. A window that does not fit into the GPU's memory, since its prompt is
    longer, is listed in `left_out`. Further windows are traced while `keep_going` says so.
    """
    traced = TracedWindows()
    for index, window in enumerate(planned):
        if index and not keep_going():
            traced.cut_short = True
            break
        try:
            _add(traced, model, generates, window, request(window), folder / f"trace-{index}.json")
        except torch.OutOfMemoryError:
            if not window.skipped:
                raise
            traced.left_out.append(window)
    return traced


def _add(
    traced: TracedWindows,
    model: torch.nn.Module,
    generates: bool,
    window: Window,
    once: Callable[[], float],
    path: Path,
) -> None:
    on_gpu = next(model.parameters()).is_cuda  # its kernels' times need no request without the profiler beside them
    plain_ms = median(once() for _ in range(1 if on_gpu else REQUESTS_TIMED))
    counted = capture.count(model, generates, once)
    traced_ms: list[float] = []
    capture.trace(model, generates, lambda: traced_ms.append(once()), path)
    trace, shards = reader.read(path), shards_of(model)
    trace = trace.of_gpu(shards[0].device.index) if on_gpu and len(shards) > 1 else trace
    traced.add(window, trace, attribution.attribute(trace), counted)
    traced.plain_ms += plain_ms
    traced.traced_ms += traced_ms[0]
