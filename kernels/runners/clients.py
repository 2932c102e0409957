"""Traffic on one runner: closed-loop clients that queue, first in first out, for one device."""

import random
import time
from collections import deque
from dataclasses import dataclass
from typing import Protocol

import torch

from kernels.measure.latency import ServedBatch
from kernels.model.inputs import random_input
from kernels.model.loading import answer_of, kind_of
from kernels.runners.base import Generation, Runner

KEPT_BATCHES = 16
"""Timed batches whose ids are kept, so that they can be held against the model's logits."""


class TrafficShape(Protocol):
    """The shape of one request, in tokens, and how many requests come at once."""

    @property
    def prompt_tokens(self) -> int: ...

    @property
    def output_tokens(self) -> int: ...

    @property
    def batch(self) -> int: ...

    @property
    def concurrency(self) -> int: ...


@dataclass(frozen=True)
class EqualRequests:
    """A `TrafficShape` of nothing else: so many requests of `prompt_tokens` and `output_tokens` at once."""

    prompt_tokens: int
    output_tokens: int
    batch: int = 1
    concurrency: int = 1


@dataclass(frozen=True)
class KeptBatch:
    """A served batch: `prompt` [batch, prompt_tokens] int64, and the ids `tokens` [batch][new]; of a model that does
    not generate `output` of the request `row`, on the host; None where none came.
    """

    prompt: torch.Tensor
    tokens: list[list[int]]
    row: int = 0
    output: torch.Tensor | None = None


class Clients:
    """`concurrency` clients on one runner; each sends its next request at the moment its last one was answered.

    The runner takes `batch` requests at a time, so there are at least that many clients. The clock runs only inside
    `serve`: while another runner is measured in between, these clients and their queue stand still. A model that does
    not generate makes one pass over its input. `kept` holds some of the timed batches with what was served.
    `unstated_s` has the seconds from the last time that the runner states until the ids could be read, batch by batch.
    """

    def __init__(self, runner: Runner, traffic: TrafficShape, seed: int) -> None:
        self.runner, self.traffic, self.kind = runner, traffic, kind_of(runner.model)
        self.served: list[ServedBatch] = []
        self.kept: list[KeptBatch] = []
        self.unstated_s: list[float] = []
        self._generator = torch.Generator().manual_seed(seed)
        self._keeping = random.Random()
        self._per_request = 0 if self.kind == "decoder" else counted_per_request(runner.model, traffic)
        self._away_ns = 0
        self._left_ns = time.monotonic_ns()
        self._queue = deque([self._left_ns] * max(traffic.concurrency, traffic.batch))

    @property
    def rounds(self) -> int:
        """Batches until every client has been served once."""
        return -(-len(self._queue) // self.traffic.batch)

    def warm_up(self) -> None:
        """Serves every client once without timing. The queue then has its steady length."""
        for _ in range(self.rounds):
            self.serve()
        self.served.clear()
        self.kept.clear()
        self.unstated_s.clear()

    def serve(self) -> ServedBatch:
        """The next batch: the requests that have waited longest, on fresh random prompts."""
        prompt = self.draw()
        self._away_ns += time.monotonic_ns() - self._left_ns
        waiting = [self._queue.popleft() for _ in range(self.traffic.batch)]
        start_ns = time.monotonic_ns() - self._away_ns
        generation = self._answer(prompt)
        ids = _read(generation)
        self.unstated_s.append((time.monotonic_ns() - max(generation.times_ns)) / 1e9)
        times = tuple(ns - self._away_ns for ns in generation.times_ns)
        self._queue.extend([times[-1]] * len(waiting))
        self._left_ns = time.monotonic_ns()
        tokens = self._per_request or len(times)
        served = ServedBatch(min(waiting), start_ns, times, len(waiting), tokens, self.rounds)
        self.served.append(served)
        self._keep(prompt, ids, generation.output)
        return served

    def sample(self, batches: int) -> list[KeptBatch]:
        """At most so many of the batches that were kept, drawn at random."""
        return self._keeping.sample(self.kept, min(batches, len(self.kept)))

    def ask(self, tokens: int) -> tuple[KeptBatch, float]:
        """A batch that is asked for exactly so many `tokens`, and the seconds until its ids could be read.

        By this clock, whatever the runner states. It is none of the clients' requests, and their queue stands still.
        """
        prompt = self.draw()
        start_ns = time.monotonic_ns()
        ids = _read(self.runner.generate(prompt, tokens))
        return KeptBatch(prompt, ids), (time.monotonic_ns() - start_ns) / 1e9

    def _keep(self, prompt: torch.Tensor, ids: list[list[int]], output: torch.Tensor | None) -> None:
        """Keeps a random sample of batches and rows (reservoir sampling): no runner knows which are judged."""
        index = len(self.kept)
        if index == KEPT_BATCHES:
            index = self._keeping.randrange(len(self.served))
        if index >= KEPT_BATCHES:
            return
        row = self._keeping.randrange(len(prompt))
        answer = None if output is None else output[row : row + 1].detach().to("cpu", copy=True)
        self.kept[index : index + 1] = [KeptBatch(prompt, ids, row, answer)]

    def draw(self) -> torch.Tensor:
        """Random ids [batch, prompt_tokens], images or recordings on the device, ready before the clock runs."""
        ids = random_input(self.runner.model, self.traffic.batch, self.traffic.prompt_tokens, self._generator)
        if ids.is_cuda:
            torch.cuda.synchronize()
        return ids

    def _answer(self, prompt: torch.Tensor) -> Generation:
        if self.kind == "decoder":
            return self.runner.generate(prompt, self.traffic.output_tokens)
        return self.runner.encode(prompt)


def _read(generation: Generation) -> list[list[int]]:
    """The ids of an answer [batch][new]; one that comes late is waited for."""
    return [[int(token) for token in row] for row in generation.tokens]


def counted_per_request(model: torch.nn.Module, traffic: TrafficShape) -> int:
    """How many of its unit one request of a model that does not generate counts: its tokens, or one."""
    return traffic.prompt_tokens if answer_of(model).unit == "tokens" else 1  # type: ignore[arg-type]
