"""A runner under load without a server: it serves batches, formed of the requests that wait when it is free.

Users of a closed loop wait in line. When the runner is free it takes those who have waited longest, as one batch: as
long as the longest prompt and the longest answer among them, as static batching is. Each user has the answer, cut to
its own length, at the times at which the runner gave it. There is neither HTTP nor a tokenizer between them.
"""

import heapq
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from kernels.engine import Runner
from kernels.engine.inputs import drawn
from kernels.load.connection import TIMED_OUT
from kernels.load.exchange import CANCELLED, Exchange
from kernels.load.generator import Limits, Sent
from kernels.load.planned import PlannedRequest
from workers.documents.traffic import Traffic
from workers.traffic.planned import requests


class BatchLoop:
    """The users of one load on one runner. Use it once."""

    def __init__(self, runner: Runner, traffic: Traffic, limits: Limits) -> None:
        self._runner, self._traffic, self._limits = runner, traffic, limits
        self._plan: Iterator[PlannedRequest] = requests(traffic, Path())
        self._draws = torch.Generator().manual_seed(traffic.seed)
        self._fixed = runner.name != "eager"  # others are built for one shape

    def run(self) -> Sent:
        """Serves until the time is up, and the batch that was begun before."""
        start = time.monotonic_ns()
        end = start + round(self._limits.seconds * 1e9)
        sent = Sent(start + round(self._limits.warm_up_s * 1e9))
        due = [self._next(user, start) for user in range(self._traffic.concurrency)]
        heapq.heapify(due)
        while due[0][0] < end:
            time.sleep(max(0, due[0][0] - time.monotonic_ns()) / 1e9)
            now, waiting = time.monotonic_ns(), []
            while due and due[0][0] <= now:
                waiting.append(heapq.heappop(due))
            sent.exchanges += (served := self._serve(waiting))
            for (_, user, _), exchange in zip(waiting, served, strict=True):
                heapq.heappush(due, self._next(user, exchange.end_ns))
        sent.stopped_ns = min(end, time.monotonic_ns())
        sent.exchanges.sort(key=lambda each: each.intended_ns)
        return sent

    def _next(self, user: int, free_ns: int) -> tuple[int, int, PlannedRequest]:
        planned = next(self._plan)
        return free_ns + round(planned.think_s * 1e9), user, planned

    def _serve(self, waiting: list[tuple[int, int, PlannedRequest]]) -> list[Exchange]:
        batch = self._traffic.concurrency if self._fixed else len(waiting)
        lengths = [(planned.prompt_tokens, planned.output_tokens) for _, _, planned in waiting]
        prompt, output = longest(self._traffic) if self._fixed else map(max, zip(*lengths, strict=True))
        ids = drawn(self._runner.model, batch, prompt, self._draws)
        begun = time.monotonic_ns()
        times = self._runner.generate(ids, output).times_ns
        return [self._exchange(due, planned, begun, times) for due, _, planned in waiting]

    def _exchange(self, due: int, planned: PlannedRequest, begun: int, times: list[int]) -> Exchange:
        """What one user of the batch had; nobody turned to it late, so the generator has no lag."""
        told = times[: min(planned.output_tokens, planned.cancel_after or planned.output_tokens)]
        late = due + round(self._traffic.time_out_s * 1e9)
        found = Exchange(planned, due, due, begun, told[0], told[-1], told, [True] * len(told))
        found.counted_prompt, found.counted_output = planned.prompt_tokens, len(told)
        if told[-1] > late:
            found.fail(TIMED_OUT, f"A request had not ended {self._traffic.time_out_s:g} s after it was due.", late)
            found.end_ns = late
        else:
            found.ended = CANCELLED if len(told) < planned.output_tokens else "length"
        return found


def longest(traffic: Traffic) -> tuple[int, int]:
    """The longest prompt and the longest answer of the traffic, in tokens."""
    prompt = traffic.prompt_lengths.longest if traffic.prompt_lengths else traffic.prompt_tokens
    return prompt or traffic.prompt_tokens, traffic.longest_output or traffic.output_tokens
