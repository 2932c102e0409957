"""A runner under load without a server: it serves batches, formed of the requests that wait when it is free.

Users of a closed loop, and the requests of an open one, wait in line. When the runner is free it takes those who have
waited longest, at most `traffic.concurrency`, as one batch: as long as the longest prompt and the longest answer among
them, as static batching is. Each user has the answer, cut to its own length, at the times at which the runner gave it.
There is neither HTTP nor a tokenizer between them.
"""

import heapq
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from kernels.load.connection import TIMED_OUT
from kernels.load.exchange import CANCELLED, Exchange
from kernels.load.generator import LoadDuration, LoadTrace
from kernels.load.planned import PlannedRequest
from kernels.model.inputs import random_input
from kernels.runners import Runner
from workers.documents.traffic import Traffic
from workers.loadtest.planned import requests
from workers.loadtest.servers.judging import ASKED_OF

WaitingRequest = tuple[int, int, PlannedRequest]
"""When a request is due, its number, and what it asks for."""


class BatchLoop:
    """The requests of one load on one runner. Use it once."""

    def __init__(
        self, runner: Runner, traffic: Traffic, limits: LoadDuration, longest: tuple[int, int], folder: Path
    ) -> None:
        """`longest`: the longest prompt and answer, in tokens; `folder` is where recordings lie."""
        self._runner, self._traffic, self._limits, self._longest = runner, traffic, limits, longest
        self._plan: Iterator[PlannedRequest] = requests(traffic, folder)
        self._draws = torch.Generator().manual_seed(traffic.seed)
        self._fixed = runner.name != "eager"  # others are built for one shape

    def run(self) -> LoadTrace:
        """Serves until the time is up, and the batch that was begun before."""
        start = time.monotonic_ns()
        end = start + round(self._limits.seconds * 1e9)
        sent = LoadTrace(start + round(self._limits.warm_up_s * 1e9))
        due: list[WaitingRequest] = []
        for _ in range(1 if self._traffic.open_loop else self._traffic.concurrency):
            self._add_next(due, start, start)
        while due and due[0][0] < end:
            time.sleep(max(0, due[0][0] - time.monotonic_ns()) / 1e9)
            waiting, lost = self._next_batch(due, start, end)
            served = self._serve(waiting) if waiting else []
            sent.exchanges += served + lost
            if not self._traffic.open_loop:
                for exchange in served:
                    self._add_next(due, exchange.end_ns, start)
        if due:  # the next one is due behind the end; until then the load goes on with nothing to serve
            time.sleep(max(0, end - time.monotonic_ns()) / 1e9)
        sent.stopped_ns = min(end, time.monotonic_ns())
        sent.exchanges.sort(key=lambda exchange: exchange.intended_ns)
        return sent

    def _next_batch(
        self, due: list[WaitingRequest], start_ns: int, end_ns: int
    ) -> tuple[list[WaitingRequest], list[Exchange]]:
        """The next batch, taken out of `due`, and the requests of an open loop that waited too long to be in it."""
        now_ns, open_loop = time.monotonic_ns(), self._traffic.open_loop
        waiting, lost = list[WaitingRequest](), list[Exchange]()
        while due and due[0][0] <= min(now_ns, end_ns - 1) and len(waiting) < self._traffic.concurrency:
            at, _, planned = next_due = heapq.heappop(due)
            if open_loop:
                self._add_next(due, start_ns, start_ns)
            if open_loop and self._late(at) < now_ns:
                lost.append(self._timed_out(Exchange(planned, at, at, at), at))
            else:
                waiting.append(next_due)
        return waiting, lost

    def _add_next(self, due: list[WaitingRequest], free_ns: int, start_ns: int) -> None:
        """The next request: of an open loop at its own time after the start, else when a user has paused.

        A recording of arrivals has none behind its last line.
        """
        planned = next(self._plan, None)
        if planned is None:
            return
        at = free_ns + round(planned.think_s * 1e9) if planned.at_s is None else start_ns + round(planned.at_s * 1e9)
        heapq.heappush(due, (at, planned.index, planned))

    def _serve(self, waiting: list[WaitingRequest]) -> list[Exchange]:
        batch = self._traffic.concurrency if self._fixed else len(waiting)
        lengths = [(planned.prompt_tokens, planned.output_tokens) for _, _, planned in waiting]
        prompt, output = self._longest if self._fixed else map(max, zip(*lengths, strict=True))
        ids = random_input(self._runner.model, batch, prompt, self._draws)
        begun = time.monotonic_ns()
        generation = self._runner.generate(ids, output)
        exchanges = [self._exchange(due, planned, begun, generation.times_ns) for due, _, planned in waiting]
        for row, exchange in enumerate(exchanges):
            if exchange.planned.index % ASKED_OF == 0:
                exchange.prompt_ids, exchange.ids = ids[row].tolist(), generation.tokens[row][: exchange.tokens]
        return exchanges

    def _exchange(self, due: int, planned: PlannedRequest, begun: int, times: list[int]) -> Exchange:
        """The exchange of one user of the batch. The generator has no lag: the request begins when it is due."""
        token_times = times[: min(planned.output_tokens, planned.cancel_after or planned.output_tokens)]
        first, last, counts = token_times[0], token_times[-1], [True] * len(token_times)
        exchange = Exchange(planned, due, due, begun, first, last, token_times, counts)
        exchange.counted_prompt, exchange.counted_output = planned.prompt_tokens, len(token_times)
        if last > self._late(due):
            return self._timed_out(exchange, due)
        exchange.ended = CANCELLED if len(token_times) < planned.output_tokens else "length"
        return exchange

    def _late(self, due: int) -> int:
        return due + round(self._traffic.time_out_s * 1e9)

    def _timed_out(self, exchange: Exchange, due: int) -> Exchange:
        sentence = f"A request had not ended {self._traffic.time_out_s:g} s after it was due."
        exchange.fail(TIMED_OUT, sentence, self._late(due))
        exchange.end_ns = self._late(due)
        return exchange
