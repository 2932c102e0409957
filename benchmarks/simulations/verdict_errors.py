"""How often verdicts err, by the rule that measuring stops by.

    python -m benchmarks.simulations.verdict_errors [dependent|requests]

Requests lie beyond the limit at the promised rate itself, where a promise is just kept and just broken. Measuring looks
after every request and stops at the first verdict.

Of independent requests that count each, the probabilities are exact, by recursion over the count beyond the limit; they
are the most that either error can be. `dependent` simulates requests that depend on those before them, by the rule of
verify (`judge_values`). `requests` prints how many independent requests that rule takes to call a promise met.
"""

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from statistics import fmean

import numpy as np

from benchmarks.simulations.simulated_requests import PROCESSES
from workers.documents.base import Verdict
from workers.documents.workload import Objective
from workers.stats.sample_sizes import MIN_REQUESTS, judge_values
from workers.stats.verdicts import CONFIDENCE, log_capital

PERCENTILES = (50, 90, 95, 99, 99.9)
REQUESTS = (200, 1_000, 5_000, 20_000)
MAX_SIMULATED = 1_000
"""Requests of a simulated measurement at most."""
PATHS = 500
PATHS_KEPT = 200
COUNTED_EACH = ("AR(1), 0.61", "AR(1), 0.82")
"""For these the table also says how often verdicts would err if each request counted."""
KEPT = ("a tenth as many beyond as may", "the limit at twice the median, times vary by 5 %")
"""Promises that independent requests keep."""


@dataclass(frozen=True)
class Boundaries:
    """How many requests beyond the limit decide, by the number of requests: `met` at most so many (-1: none is met),
    `missed` at least so many.
    """

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
    max_missed, least = -1, 1
    for count in range(1, requests + 1):
        while max_missed + 1 <= count and reached(count, max_missed + 1, "met"):
            max_missed += 1
        while least <= count and not reached(count, least, "missed"):
            least += 1
        met[count - 1], missed[count - 1] = max_missed, least
    return Boundaries(met, missed)


@cache
def errors(percentile: float, requests: int, min_requests: int = MIN_REQUESTS) -> VerdictErrors:
    """Both errors of measurements of up to `requests` that look after every one from `min_requests` on."""
    limits, rate = boundaries(percentile, requests), 1 - percentile / 100
    met, missed = np.zeros(requests), np.zeros(requests)
    going, low = np.ones(1), 0  # `going[i]`: it goes on with low + i beyond the limit
    for index in range(requests):
        going = np.append(going * (1 - rate), 0.0) + np.append(0.0, going * rate)
        if index + 1 >= min_requests:
            few, many = max(0, limits.met[index] + 1 - low), max(0, limits.missed[index] - low)
            met[index], missed[index] = going[:few].sum(), going[many:].sum()
            going, low = going[few:many], low + few
    return VerdictErrors(met.cumsum(), missed.cumsum())


def first_verdict(percentile: float, logs: np.ndarray, count_each: bool = False) -> tuple[Verdict | None, int]:
    """The verdict at which looking after every request stops, and after how many. None where none is reached.

    `logs` [requests]: the logarithms of times over the limit. `count_each`: as if requests were independent. Counts
    that do not reach a verdict by themselves reach none where several count as one, so only the others are judged.
    """
    limits, beyond = boundaries(percentile, len(logs)), logs > 0
    counts, objective = beyond.cumsum(), Objective(metric="e2e", percentile=percentile, limit=1)
    values, shares = np.exp(logs).tolist(), beyond.astype(float).tolist()
    sides: tuple[tuple[Verdict, np.ndarray], ...] = (("met", counts <= limits.met), ("missed", counts >= limits.missed))
    for served in range(MIN_REQUESTS, len(logs) + 1):
        for side, reached in sides:
            if not reached[served - 1]:
                continue
            if count_each or judge_values(objective, [values[:served]], [shares[:served]]) == side:
                return side, served
    return None, len(logs)


def simulated(
    name: str, percentile: float, paths: int = PATHS, requests: int = MAX_SIMULATED, count_each: bool = False
) -> tuple[float, float]:
    """The shares of simulated measurements, with the promised rate itself beyond the limit, called met and missed."""
    draws = np.random.default_rng([int(10 * percentile), *name.encode()])
    logs = PROCESSES[name](draws, (paths, requests), 1 - percentile / 100)
    verdicts = [first_verdict(percentile, path, count_each)[0] for path in logs]
    return verdicts.count("met") / paths, verdicts.count("missed") / paths


def requests_until_met(percentile: float, kept: str, count_each: bool = False, paths: int = PATHS_KEPT) -> int:
    """The mean of the requests after which a promise that independent requests keep is called met."""
    draws, rate, max_requests = np.random.default_rng(int(percentile)), 1 - percentile / 100, 2_000
    if kept == KEPT[0]:
        logs = PROCESSES["independent"](draws, (paths, max_requests), rate / 10)
    else:
        logs = 0.05 * draws.standard_normal((paths, max_requests)) - math.log(2)
    return round(fmean(first_verdict(percentile, path, count_each)[1] for path in logs))


def rows(percentile: float) -> Iterator[str]:
    rates = errors(percentile, REQUESTS[-1])
    for requests in REQUESTS:
        met, missed = (shares[requests - 1] for shares in (rates.met, rates.missed))
        yield f"| p{percentile:g} | {requests:,} | {met:.2%} | {missed:.2%} |"


def dependent() -> Iterator[str]:
    percentiles = PERCENTILES[:-1]
    yield f"| times of requests | {' | '.join(f'p{percentile}' for percentile in percentiles)} |"
    yield "| --- " * (1 + len(percentiles)) + "|"
    for name, count_each in [*((name, False) for name in PROCESSES), *((name, True) for name in COUNTED_EACH)]:
        rates = [simulated(name, percentile, count_each=count_each) for percentile in percentiles]
        for side, shares in zip(("met", "missed"), zip(*rates, strict=True), strict=True):
            counted = " if each counts" if count_each else ""
            yield f"| {name}, called {side}{counted} | {' | '.join(f'{share:.1%}' for share in shares)} |"


def requests_taken() -> Iterator[str]:
    percentiles = PERCENTILES[:-1]
    yield f"| independent requests | {' | '.join(f'p{percentile}' for percentile in percentiles)} |"
    yield "| --- " * (1 + len(percentiles)) + "|"
    for kept in KEPT:
        for count_each, label in ((True, "each counts"), (False, "as verify counts")):
            counts = [requests_until_met(percentile, kept, count_each) for percentile in percentiles]
            yield f"| {kept}: {label} | {' | '.join(f'{count:,}' for count in counts)} |"


def main() -> None:
    """Prints a Markdown table of the probabilities of wrong verdicts, or of the requests that verdicts take."""
    if sys.argv[1:] in (["dependent"], ["requests"]):
        for row in dependent() if sys.argv[1] == "dependent" else requests_taken():
            print(row, flush=True)
        return
    print("| percentile | requests at most | just broken, called met | just kept, called missed |")
    print("| --- | --- | --- | --- |")
    for percentile in PERCENTILES:
        print("\n".join(rows(percentile)))


if __name__ == "__main__":
    main()
