"""The loop of the engine: plans a step, launches it, and only then reads the step before."""

import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from kernels.server.scheduler.batching import Scheduler, SchedulerLimits
from kernels.server.scheduler.requests import Logprobs, Request, Step, Token


class Backend(Protocol):
    """What the engine asks to compute steps. Steps are launched in order, and read in the same order."""

    limits: SchedulerLimits
    count: int
    """The most tokens that it makes of each sequence in one step."""
    longest: int
    """The most tokens of a sequence that it takes."""
    max_num_seqs: int
    """The most sequences of a step; 0: unlimited, all that `limits` allow."""

    def can_run(self, step: Step) -> bool:
        """Whether it computes such a step."""

    def launch(self, step: Step) -> Callable[[], None] | None:
        """Starts the step. Does not wait for the device. Returns what remains to be done of the step once the tokens of
        those before it are committed, if there is something.
        """

    def read(self) -> tuple[list[list[int]], dict[int, Logprobs]]:
        """Waits for the oldest unread step: its parts' ids, and log probabilities by the number of a part."""


class Captures(Protocol):
    """A backend that became ready before all of its passes were captured."""

    @property
    def graphs_left(self) -> int:
        """The passes that are still to be captured."""

    def capture_next(self) -> bool:
        """Captures one of them; whether there was one."""


class Engine:
    """Requests in, tokens out. `run_step` never waits for the step that it launches, only for the one before."""

    def __init__(self, backends: list[Backend], captures: "Captures | None" = None) -> None:
        """The first backend that can run a step computes it. All share the limits, and the pages, of the first.
        `captures` is the one that has passes to capture when the engine is idle.
        """
        self.captures = captures
        self.backends, self.scheduler = backends, Scheduler(backends[0].limits)
        self.steps, self.steps_of = 0, [0] * len(backends)
        self._pending: deque[tuple[Step, Backend]] = deque()

    @property
    def idle(self) -> bool:
        """Whether nothing is waited for and nothing is to be computed."""
        return not (self._pending or self.scheduler.running or self.scheduler.waiting)

    def add(self, request: Request) -> None:
        """Takes a request in. Raises ValueError with one sentence if it can never be served."""
        self.scheduler.add(request)

    def cancel(self, request: Request) -> None:
        self.scheduler.cancel(request)

    def run_step(self) -> list[Token]:
        """Launches the next step, if there is one. Returns the tokens of the step before."""
        tokens = self.scheduler.expire(time.monotonic())
        step = self.scheduler.next_step()
        late, rest = 0, None
        if step is not None:
            backend = next(candidate for candidate in self.backends if candidate.can_run(step))
            step = self.scheduler.multi_step(step, backend.count, backend.longest)
            rest = backend.launch(step)
            self._pending.append((step, backend))
            self.steps += 1
            self.steps_of[self.backends.index(backend)] += 1
            late = 1
        while len(self._pending) > late:
            done, reader = self._pending.popleft()
            tokens += self.scheduler.commit(done, *reader.read())
        if rest is not None:
            rest()
        return tokens
