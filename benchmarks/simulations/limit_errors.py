"""How often the search for the highest load names one that does not hold.

    python -m benchmarks.simulations.limit_errors

Of users: up to a number of them the promise is kept with room to spare; above it, it is just broken at every load,
where a wrong *met* is most frequent. Of rates: a server with one line (M/M/1) is simulated request by request, and the
promise is just broken at the first rate above. Requests that wait in one line have similar latencies there, which
draws of independent requests would not show. Every load serves the same number of requests. A search errs where it
names a load above.
"""

import itertools
import math
from functools import cache

import numpy as np

from workers.loadtest.highest_load import RATE_STEPS, LimitSearch
from workers.stats import dependence
from workers.stats.verdicts import verdict

PERCENTILES = (50, 95, 99)
MAX_USERS = (4, 64, 1024)
REQUESTS = (100, 1_000, 5_000)
SEARCHES = 20_000
SEARCHES_OF_RATES = 200
OVERLOADED = 1.2
"""A server is given at most this many times what it can serve; its line then grows as long as the load lasts."""
KEPT = 0.2
"""Where the promise is kept, this share of the requests that may lie beyond the limit does."""


@cache
def most_over(percentile: float, requests: int, confidence: float) -> int:
    """The most requests beyond the limit, of so many, with which a load is met; -1 where none is."""

    def met(over: int) -> bool:
        return verdict(percentile, [1.0] * over + [0.0] * (requests - over), confidence) == "met"

    low, high = -1, requests
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if met(middle) else (low, middle)
    return low


def error(search: LimitSearch, holds: int, percentile: float, requests: int, searches: int) -> float:
    """The share of `searches` that name more than `holds` users."""
    draws, wrong = np.random.default_rng([search.most, holds]), 0
    most = most_over(percentile, requests, search.confidence)
    broken = 1 - percentile / 100

    def met(users: int) -> bool:
        return int(draws.binomial(requests, broken * KEPT if users <= holds else broken)) <= most

    for _ in range(searches):
        wrong += search.run(lambda users: "met" if met(users) else "too_close") > holds
    return wrong / searches


def worst(max_users: int, percentile: float, requests: int, searches: int = SEARCHES) -> float:
    """The largest error over where the promise breaks: nowhere, early, in the middle, late."""
    search = LimitSearch(max_users, least=3)
    true_limits = sorted({0, 1, 2, max_users // 3, max_users // 2 + 1, max_users - 1})
    return max(error(search, holds, percentile, requests, searches) for holds in true_limits)


def waits(draws: np.random.Generator, requests: int, used: float) -> np.ndarray:
    """Times from arrival to end of successive requests at a server that is busy a share `used` of the time (M/M/1).

    In units of the mean time of service. The first requests, a fifth of all, find it idle and are left out.
    """
    first = requests // 4
    service = draws.exponential(1.0, requests + first)
    gaps = draws.exponential(1 / used, requests + first)
    sums = np.concatenate([[0.0], np.cumsum(service[:-1] - gaps[1:])])
    return np.asarray((sums - np.minimum.accumulate(sums) + service)[first:])


def error_of_rates(holds: int, used: float, percentile: float, requests: int, searches: int) -> float:
    """The share of searches among rates that name more than `holds` steps of them.

    At the next step the server is busy a share `used` of the time, and the promise is just broken: there the times have
    an exponential distribution of mean 1 / (1 − used).
    """
    search, draws, wrong = LimitSearch(RATE_STEPS, least=3), np.random.default_rng([holds, requests]), 0
    limit = -math.log(1 - percentile / 100) / (1 - used)

    def met(index: int) -> bool:
        busy = min(used * index / (holds + 1), OVERLOADED)
        values = waits(draws, requests, busy)
        shares = (values > limit).astype(float).tolist()
        return dependence.judge_dependent(percentile, values.tolist(), shares, search.confidence)[0] == "met"

    for _ in range(searches):
        wrong += search.run(lambda index: "met" if met(index) else "too_close") > holds
    return wrong / searches


def worst_of_rates(percentile: float, requests: int, searches: int = SEARCHES_OF_RATES) -> float:
    """The largest error over where the promise breaks, and how busy the server is there."""
    places = itertools.product((3, 20, 47), (0.5, 0.8, 0.95))
    return max(error_of_rates(holds, used, percentile, requests, searches) for holds, used in places)


def main() -> None:
    print("| users at most | percentile |", " | ".join(f"{count:,} requests a load" for count in REQUESTS), "|")
    print("| --- " * (2 + len(REQUESTS)) + "|")
    for max_users in MAX_USERS:
        for percentile in PERCENTILES:
            shares = [worst(max_users, percentile, requests) for requests in REQUESTS]
            print(f"| {max_users:,} | p{percentile} | {' | '.join(f'{share:.2%}' for share in shares)} |")
    for percentile in PERCENTILES:
        shares = [worst_of_rates(percentile, requests) for requests in REQUESTS]
        print(f"| {RATE_STEPS} rates | p{percentile} | {' | '.join(f'{share:.2%}' for share in shares)} |")


if __name__ == "__main__":
    main()
