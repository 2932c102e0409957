"""Requests that are timed and traced: one call on a prepared runner, by what the model gives."""

from collections.abc import Callable, Sequence
from statistics import median

import torch

from kernels.runners import Generation, Runner

REQUESTS_TIMED = 3


def answer(runner: Runner, prompt: torch.Tensor, tokens: int, generates: bool) -> Generation:
    """The answer to one request: `tokens` tokens of a model that generates, else one forward pass over the prompt."""
    return runner.generate(prompt, tokens) if generates else runner.encode(prompt)


def wall_ms(answered: Generation) -> float:
    """Milliseconds from the request's start to its last token."""
    return (answered.times_ns[-1] - answered.start_ns) / 1e6


def median_ms(answers: Sequence[Generation]) -> float:
    """The median of the requests' times in ms."""
    return median(map(wall_ms, answers))


def request(runner: Runner, prompt: torch.Tensor, tokens: int, generates: bool) -> Callable[[], float]:
    """A function that makes one request and returns its time in ms."""
    return lambda: wall_ms(answer(runner, prompt, tokens, generates))
