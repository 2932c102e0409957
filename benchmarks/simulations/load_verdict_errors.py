"""How often the verdict on a closed loop errs, by the server under it.

    python -m benchmarks.simulations.load_verdict_errors

Each load has USERS users without pauses for SECONDS. The promise is just broken, where a wrong *met* is most frequent,
or kept with room to spare, where *met* is right. A server is simulated as when each request's first token came, what
the request took, and whether it lies beyond the limit.
"""

import itertools
import math
from collections.abc import Callable
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from workers.stats.dependence import answered_together, judge_dependent
from workers.stats.verdicts import CONFIDENCE

PERCENTILES = (50, 90, 95, 99)
USERS, REQUEST_S, SECONDS = 32, 0.5, 48.0
"""What a request takes on average, and what of a load of 60 s counts in a run."""
LIMIT_S = 0.65
"""Between what a request takes and what a slow one does."""
JITTER_S = 0.003
"""What the network adds to each answer: the standard deviation of a half-normal."""
KEPT = 0.2
"""Where the promise is kept, this share of the requests that may lie beyond the limit does."""
LOADS = 2000


class Answers(NamedTuple):
    """The requests of a load: when the first token of each came, in s, what it took, in s, whether beyond the limit."""

    first_s: np.ndarray
    took_s: np.ndarray
    beyond: np.ndarray
    limit_s: float = LIMIT_S


Server = Callable[[np.random.Generator, float], Answers]
"""Draws the answers of one load. The share that lies beyond the limit in the long run is given."""


def batches(in_line: int = 1, request_s: float = REQUEST_S) -> Server:
    """All users are answered in one batch, or in several that wait for each other; a slow one takes twice its time."""

    def server(draws: np.random.Generator, share: float) -> Answers:
        count = int(1.5 * SECONDS / request_s * in_line)
        slow: np.ndarray = np.less(draws.random(count), 1 - (1 - share) ** (1 / in_line))
        service = request_s / in_line * (1 + slow)
        took = np.lib.stride_tricks.sliding_window_view(service, in_line).sum(axis=1)
        beyond = np.lib.stride_tricks.sliding_window_view(slow, in_line).max(axis=1)
        answered = np.repeat(np.arange(len(took)), USERS // in_line)
        late = JITTER_S * np.abs(draws.standard_normal(len(answered)))
        return Answers(service.cumsum()[in_line - 1 :][answered] + late, took[answered] + late, beyond[answered])

    return server


def independent(draws: np.random.Generator, share: float) -> Answers:
    """Continuous batching at its best: each request is as slow as it is by itself."""
    count = int(2 * SECONDS / REQUEST_S)
    beyond = draws.random((USERS, count)) < share
    took = REQUEST_S * (1 + 0.1 * draws.standard_normal((USERS, count))).clip(0.3) * (1 + 0.5 * beyond)
    first = took.cumsum(axis=1) - REQUEST_S * draws.random((USERS, 1))
    return Answers(first.ravel(), took.ravel(), beyond.ravel())


def slow_periods(in_a_load: float) -> Server:
    """Periods in which each request takes twice its time; so many begin in a load, on average."""

    def server(draws: np.random.Generator, share: float) -> Answers:
        of_time = 2 * share / (1 + share)  # half as many requests end meanwhile
        slow_s, cycle_s = of_time * SECONDS / in_a_load, SECONDS / in_a_load
        count = int(6 * in_a_load) + 20
        lengths = draws.exponential([slow_s, cycle_s - slow_s], (count, 2)).ravel()
        first_slow = int(draws.random() >= of_time)  # the state at the load's begin is that of any moment
        ends = lengths[first_slow:].cumsum()
        now, batches = -REQUEST_S * draws.random(USERS), []
        while now.min() < SECONDS:
            slow = (np.searchsorted(ends, now) + first_slow) % 2 == 0
            took = REQUEST_S * (1 + slow) * (1 + 0.1 * draws.standard_normal(USERS))
            now = now + took
            batches.append((now, took, slow))
        first, all_took, beyond = (np.concatenate(column) for column in zip(*batches, strict=True))
        return Answers(first, all_took, beyond)

    return server


def wave(period_s: float, deviation: float = 0.1, limit_s: float | None = None) -> Server:
    """All users' times rise and fall together: a normal AR(1) process whose correlation falls to 1/e in `period_s`.

    `deviation` is its standard deviation as a share of a request's time. Without `limit_s` the limit is where the given
    share lies beyond it.
    """

    def server(draws: np.random.Generator, share: float) -> Answers:
        step_s = 0.05
        keep = math.exp(-step_s / period_s)
        steps = draws.standard_normal(int(2 * SECONDS / step_s)) * math.sqrt(1 - keep * keep)
        level = np.array(list(itertools.accumulate(steps[1:], lambda now, step: keep * now + step, initial=steps[0])))
        limit = limit_s or REQUEST_S * (1 + deviation * NormalDist().inv_cdf(1 - share))
        now, batches = -REQUEST_S * draws.random(USERS), []
        while now.min() < SECONDS:
            took = REQUEST_S * (1 + deviation * level[(now.clip(0) / step_s).astype(int)])
            now = now + took
            batches.append((now, took, took > limit))
        first, all_took, beyond = (np.concatenate(column) for column in zip(*batches, strict=True))
        return Answers(first, all_took, beyond, limit)

    return server


SERVERS: dict[str, Server] = {
    "all users in one batch": batches(),
    "all users in one batch of 4 s": batches(request_s=4.0),
    "two batches in one line": batches(2),
    "independent requests": independent,
    "all slower and faster together, in 0.2 s": wave(0.2),
    "all slower and faster together, in 2 s": wave(2.0),
    "8 slow periods in a load": slow_periods(8),
    "4 slow periods in a load": slow_periods(4),
    "1 slow period in a load": slow_periods(1),
}
ALL_KEPT: dict[str, Server] = {
    "independent requests, kept": independent,
    "all slower and faster by 0.5 % in 2 s, kept": wave(2.0, 0.005, LIMIT_S),
}


def called_met(
    server: Server, percentile: float, times: float = 1.0, loads: int = LOADS, confidence: float = CONFIDENCE
) -> float:
    """The share of `loads` that are called met where `times` as many requests as allowed lie beyond the limit."""
    met = 0
    for number in range(loads):
        columns = server(np.random.default_rng([number, int(percentile)]), times * (1 - percentile / 100))
        order = np.argsort(columns.first_s)
        order = order[(columns.first_s[order] >= 0) & (columns.first_s[order] < SECONDS)]
        first, took, beyond = (column[order].astype(float).tolist() for column in columns[:3])
        together = answered_together(first, float(np.median(took)))
        met += judge_dependent(percentile, took, beyond, confidence, together, columns.limit_s).verdict == "met"
    return met / loads


def main() -> None:
    print("| server |", " | ".join(f"p{percentile}" for percentile in PERCENTILES), "|")
    print("| --- " * (1 + len(PERCENTILES)) + "|")
    for name, server in SERVERS.items():
        print(
            f"| {name} |",
            " | ".join(f"{called_met(server, percentile):.1%}" for percentile in PERCENTILES),
            "|",
            flush=True,
        )
    for name, server in ALL_KEPT.items():
        kept = [f"{called_met(server, percentile, KEPT, LOADS // 10):.1%}" for percentile in PERCENTILES]
        print(f"| {name} |", " | ".join(kept), "|", flush=True)


if __name__ == "__main__":
    main()
