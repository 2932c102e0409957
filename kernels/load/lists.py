"""Lists of requests of random token ids, the same for every server; each quantity has a stream of numpy's."""

import itertools
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from kernels.load.generator import PlannedLoad
from kernels.load.planned import PlannedRequest

PROMPTS, OUTPUTS, GAPS = range(3)
"""The streams of the quantities that are drawn."""


@dataclass(frozen=True)
class Lengths:
    """Tokens of prompts and answers: all alike, or with `sigma` above 0 log-normal around them, cut to `most` times."""

    prompt: int
    tokens: int
    sigma: float = 0.0
    most: int = 8

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence."""
        return (self.prompt + self.tokens) * (self.most if self.sigma else 1)

    @property
    def described(self) -> str:
        """`equal`, or how they are drawn."""
        return f"log-normal, sigma {self.sigma:g}, up to {self.most} times the median" if self.sigma else "equal"

    def pairs(self, count: int, seed: int) -> list[tuple[int, int]]:
        """(prompt, answer) of `count` requests."""
        if not self.sigma:
            return [(self.prompt, self.tokens)] * count
        both = [
            log_normal(median, self.sigma, self.most * median, seed, stream)
            for median, stream in ((self.prompt, PROMPTS), (self.tokens, OUTPUTS))
        ]
        return list(itertools.islice(zip(*both, strict=False), count))


@dataclass(frozen=True)
class RequestList:
    """Requests, the ids of their prompts, and which of them are judged: their answers' ids are asked for."""

    planned: list[PlannedRequest]
    prompts: list[list[int]]
    judged: frozenset[int]

    @classmethod
    def random(
        cls, lengths: Lengths, count: int, vocabulary: int, seed: int, rate: float | None = None, judged: int = 0
    ) -> "RequestList":
        """`count` requests of random ids below `vocabulary`; with a `rate` (requests a second) in a Poisson process."""
        times = arrivals(rate, 1.0, seed, GAPS) if rate else itertools.repeat(None)
        planned = [
            PlannedRequest(index, at_s, 0.0, *pair)
            for index, (pair, at_s) in enumerate(zip(lengths.pairs(count, seed), times, strict=False))
        ]
        chance = random.Random(seed)
        prompts = [
            [chance.randrange(vocabulary) for _ in range(planned_request.prompt_tokens)] for planned_request in planned
        ]
        return cls(planned, prompts, frozenset(chance.sample(range(count), min(judged, count))))

    def load(self, model: str, users: int | None) -> PlannedLoad:
        """The list as it is sent for `model`: by `users` in a closed loop, or at its own times."""
        return PlannedLoad(iter(self.planned), partial(self.body, model), users)

    def body(self, model: str, planned: PlannedRequest) -> bytes:
        """The JSON of a request: greedy, streamed, with usage at its end, and exactly as long as planned."""
        document = {
            "model": model,
            "prompt": self.prompts[planned.index],
            "max_tokens": planned.output_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if planned.index in self.judged:
            document["return_token_ids"] = True
        return json.dumps(document).encode()


DRAWN_AT_ONCE = 1024


def endless(draw: Callable[[np.random.Generator], np.ndarray], seed: int, stream: int) -> Iterator[float]:
    """Values without end; `draw` gives many at once. A change of one `stream` leaves the others as they were."""
    generator = np.random.default_rng([seed, stream])
    while True:
        yield from draw(generator).tolist()


def log_normal(median: float, sigma: float, maximum: int, seed: int, stream: int) -> Iterator[int]:
    """Lengths in tokens: ln(length) is normal around ln(`median`) with deviation `sigma`; from 1, cut to `maximum`."""
    middle = float(np.log(median))
    values = endless(lambda generator: generator.lognormal(middle, sigma, DRAWN_AT_ONCE), seed, stream)
    return (min(max(round(value), 1), maximum) for value in values)


def arrivals(rate: float, shape: float, seed: int, stream: int) -> Iterator[float]:
    """Seconds at which requests come, `rate` a second; gaps, the first too, are gamma of `shape`, 1 for Poisson."""
    scale = 1 / (rate * shape)
    return itertools.accumulate(endless(lambda generator: generator.gamma(shape, scale, DRAWN_AT_ONCE), seed, stream))
