"""How often verdicts err, by the rule that measuring stops by: `python -m workers.verdict_errors`.

Requests lie beyond the limit at the promised rate itself, where a promise is just kept and just broken. Measuring looks
after every request and stops at the first verdict. The probabilities are exact, by recursion over the count beyond the
limit; they are the most that either error can be.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from workers.measuring.sample_sizes import LEAST_REQUESTS
from workers.verdicts import CONFIDENCE, log_capital

PERCENTILES = (50, 90, 95, 99, 99.9)
REQUESTS = (200, 1_000, 5_000, 20_000)


@dataclass(frozen=True)
class Boundaries:
    """By the number of requests: `met` at most so many beyond the limit (-1: none), `missed` at least so many."""

    met: np.ndarray
    missed: np.ndarray


@dataclass(frozen=True)
class VerdictErrors:
    """The probability that a verdict has been said by each number of requests, at the promised rate itself."""

    met: np.ndarray
    missed: np.ndarray


@cache
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


def errors(percentile: float, requests: int, least: int = LEAST_REQUESTS) -> VerdictErrors:
    """Both errors of measurements of up to `requests` that look after every one from `least` on."""
    limits, rate = boundaries(percentile, requests), 1 - percentile / 100
    met, missed = np.zeros(requests), np.zeros(requests)
    going, low = np.ones(1), 0  # `going[i]`: it goes on with low + i beyond the limit
    for index in range(requests):
        going = np.append(going * (1 - rate), 0.0) + np.append(0.0, going * rate)
        if index + 1 >= least:
            few, many = max(0, limits.met[index] + 1 - low), max(0, limits.missed[index] - low)
            met[index], missed[index] = going[:few].sum(), going[many:].sum()
            going, low = going[few:many], low + few
    return VerdictErrors(met.cumsum(), missed.cumsum())


def rows(percentile: float) -> Iterator[str]:
    """The Markdown rows of one percentile."""
    found = errors(percentile, REQUESTS[-1])
    for requests in REQUESTS:
        met, missed = (each[requests - 1] for each in (found.met, found.missed))
        yield f"| p{percentile:g} | {requests:,} | {met:.2%} | {missed:.2%} |"


def main() -> None:
    """Prints a Markdown table of the probabilities of wrong verdicts."""
    print("| percentile | requests at most | just broken, called met | just kept, called missed |")
    print("| --- | --- | --- | --- |")
    for percentile in PERCENTILES:
        print("\n".join(rows(percentile)))


if __name__ == "__main__":
    main()
