"""The requests of a traffic description, one after the other. The same description gives the same requests."""

import itertools
from collections.abc import Iterator
from pathlib import Path

from kernels.load import lists
from kernels.load.lists import DRAWN_AT_ONCE, endless, log_normal
from kernels.load.planned import PlannedRequest
from workers.documents.traffic import (
    ClosedLoop,
    FixedLength,
    Gamma,
    Length,
    LogNormalLength,
    Poisson,
    RecordedArrivals,
    Traffic,
    UniformLength,
)
from workers.loadtest import recording
from workers.loadtest.recording import RecordedRequest

PROMPTS, OUTPUTS, GAPS, PAUSES, CANCELLED = range(5)
"""Each quantity is drawn from a stream of its own, so that a change of one leaves the others as they were."""


def requests(traffic: Traffic, folder: Path) -> Iterator[PlannedRequest]:
    """The requests in the order in which they are sent, without end unless arrivals are recorded.

    `folder`: where the path of a recording begins. Recorded lengths start again at the first line behind the last one.
    Raises InvalidRecording where the recording is broken, when that line is reached.
    """
    arrivals = traffic.arrivals or ClosedLoop()
    ends = isinstance(arrivals, RecordedArrivals)
    lines = _lines(folder / traffic.recording, again=not ends) if traffic.recording else itertools.repeat(None)
    prompts = _lengths(traffic.prompt_lengths or FixedLength(tokens=traffic.prompt_tokens), traffic.seed, PROMPTS)
    outputs = _lengths(traffic.output_lengths or FixedLength(tokens=traffic.output_tokens), traffic.seed, OUTPUTS)
    times = _times(arrivals, traffic.seed)
    pauses = _pauses(arrivals, traffic.seed)
    cancelled = _cancelled(traffic)
    for index, line in enumerate(lines):
        at_s = line.arrival_s / arrivals.speed if isinstance(arrivals, RecordedArrivals) and line else next(times)
        yield PlannedRequest(
            index,
            at_s,
            next(pauses),
            next(prompts) or (line.prompt_tokens if line else 1),
            next(outputs) or (line.output_tokens if line else 1),
            line.conversation if line else "",
            next(cancelled),
        )


def _lines(file: Path, again: bool) -> Iterator[RecordedRequest]:
    yield from recording.read(file)
    while again:
        yield from recording.read(file)


def _lengths(length: Length, seed: int, stream: int) -> Iterator[int | None]:
    """Lengths in tokens; None where they are recorded."""
    match length:
        case FixedLength():
            return itertools.repeat(length.tokens)
        case UniformLength():
            values = endless(lambda rng: rng.integers(length.low, length.high + 1, DRAWN_AT_ONCE), seed, stream)
            return (int(value) for value in values)
        case LogNormalLength():
            return log_normal(length.median, length.sigma, length.most, seed, stream)
    return itertools.repeat(None)


def _times(arrivals: ClosedLoop | Poisson | Gamma | RecordedArrivals, seed: int) -> Iterator[float | None]:
    """Seconds after the beginning; the first request of an open loop comes after a gap as well."""
    if not isinstance(arrivals, Poisson | Gamma):
        return itertools.repeat(None)
    shape = 1.0 if isinstance(arrivals, Poisson) else 1 / arrivals.cv**2
    return lists.arrivals(arrivals.rate, shape, seed, GAPS)


def _pauses(arrivals: ClosedLoop | Poisson | Gamma | RecordedArrivals, seed: int) -> Iterator[float]:
    if not isinstance(arrivals, ClosedLoop) or not arrivals.think_s:
        return itertools.repeat(0.0)
    mean = arrivals.think_s
    return endless(lambda rng: rng.exponential(mean, DRAWN_AT_ONCE), seed, PAUSES)


def _cancelled(traffic: Traffic) -> Iterator[int | None]:
    who = traffic.cancellations
    if who is None:
        return itertools.repeat(None)
    values = endless(lambda rng: rng.random(DRAWN_AT_ONCE), traffic.seed, CANCELLED)
    return (who.after_tokens if value < who.share else None for value in values)
