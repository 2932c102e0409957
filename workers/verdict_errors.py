"""How often verdicts err, simulated by the rule that measuring stops by: `python -m workers.verdict_errors`.

Requests beyond the limit are drawn at the promised rate itself, where a promise is just kept and just broken. Measuring
looks after every request and stops at the first verdict. The simulated shares are the most that either error can be.
"""

import math
from dataclasses import dataclass

import numpy as np

from workers.measuring.sample_sizes import LEAST_REQUESTS
from workers.verdicts import CONFIDENCE, log_capital

PERCENTILES = (50, 90, 95, 99, 99.9)
REQUESTS = (200, 1_000, 5_000, 20_000)
PATHS = 20_000
BLOCK = 100


@dataclass(frozen=True)
class Boundaries:
    """By the number of requests: `met` at most so many beyond the limit (-1: none), `missed` at least so many."""

    met: np.ndarray
    missed: np.ndarray


@dataclass(frozen=True)
class FirstVerdicts:
    """Of each simulated path: the request that brought the first verdict (0: none did), and the verdict."""

    request: np.ndarray
    met: np.ndarray
    missed: np.ndarray


def boundaries(percentile: float, requests: int) -> Boundaries:
    """The counts beyond the limit at which each verdict is reached, for every number of requests up to `requests`."""
    rate, enough = 1 - percentile / 100, -math.log(1 - CONFIDENCE)

    def reached(count: int, over: int, side: str) -> bool:
        return log_capital(rate, np.array([0.0, 1.0]), np.array([count - over, over]), side) >= enough

    met, missed = np.full(requests, -1), np.zeros(requests, dtype=np.int64)
    most, least = -1, 1
    for count in range(1, requests + 1):
        while most + 1 <= count and reached(count, most + 1, "met"):
            most += 1
        while least <= count and not reached(count, least, "missed"):
            least += 1
        met[count - 1], missed[count - 1] = most, least
    return Boundaries(met, missed)


def first_verdicts(limits: Boundaries, over: np.ndarray, least: int) -> FirstVerdicts:
    """`over` [paths, requests]: how many lay beyond the limit after each request; no look before `least` requests."""
    count = over.shape[1]
    met, missed = over <= limits.met[:count], over >= limits.missed[:count]
    met[:, : least - 1] = missed[:, : least - 1] = False
    decided = met | missed
    stopped, first = decided.any(axis=1), decided.argmax(axis=1)
    rows = np.arange(len(over))
    return FirstVerdicts(np.where(stopped, first + 1, 0), stopped & met[rows, first], stopped & missed[rows, first])


def highest_plausible(paths: int) -> int:
    """The most errors among `paths` that a true error of 1 % explains: four standard deviations above the mean."""
    error = 1 - CONFIDENCE
    return math.ceil(paths * error + 4 * math.sqrt(paths * error * (1 - error)))


def main() -> None:
    """Prints a Markdown table of the share of wrong verdicts."""
    print("| percentile | requests at most | just broken, called met | just kept, called missed |")
    print("| --- | --- | --- | --- |")
    for percentile in PERCENTILES:
        generator, limits = np.random.default_rng(1), boundaries(percentile, REQUESTS[-1])
        errors = {requests: np.zeros(2) for requests in REQUESTS}
        for _ in range(PATHS // BLOCK):
            drawn = generator.random((BLOCK, REQUESTS[-1]), dtype=np.float32) < 1 - percentile / 100
            found = first_verdicts(limits, drawn.cumsum(axis=1), LEAST_REQUESTS)
            for requests, each in errors.items():
                soon = found.request <= requests
                each += (found.met & soon).sum(), (found.missed & soon).sum()
        for requests, (met, missed) in errors.items():
            print(f"| p{percentile:g} | {requests:,} | {met / PATHS:.2%} | {missed / PATHS:.2%} |")


if __name__ == "__main__":
    main()
