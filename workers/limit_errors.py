"""How often the search for the highest load names one that does not hold: `python -m workers.limit_errors`.

Up to a number of users the promise is kept with room to spare; above it, it is just broken at every load, where a wrong
*met* is most frequent. Every load serves the same number of requests. A search errs where it names a load above.
"""

from functools import cache

import numpy as np

from workers.traffic.limit import Search
from workers.verdicts import verdict

PERCENTILES = (50, 95, 99)
MOST = (4, 64, 1024)
REQUESTS = (100, 1_000, 5_000)
SEARCHES = 20_000
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


def error(search: Search, holds: int, percentile: float, requests: int, searches: int) -> float:
    """The share of `searches` that name more than `holds` users."""
    draws, wrong = np.random.default_rng([search.most, holds]), 0
    most = most_over(percentile, requests, search.confidence)
    broken = 1 - percentile / 100

    def met(users: int) -> bool:
        return int(draws.binomial(requests, broken * KEPT if users <= holds else broken)) <= most

    for _ in range(searches):
        wrong += search.run(lambda users: "met" if met(users) else "too_close") > holds
    return wrong / searches


def worst(most: int, percentile: float, requests: int, searches: int = SEARCHES) -> float:
    """The largest error over where the promise breaks: nowhere, early, in the middle, late."""
    search = Search(most, least=3)
    places = sorted({0, 1, 2, most // 3, most // 2 + 1, most - 1})
    return max(error(search, holds, percentile, requests, searches) for holds in places)


def main() -> None:
    """Prints a Markdown table of the largest share of searches that err."""
    print("| users at most | percentile |", " | ".join(f"{each:,} requests a load" for each in REQUESTS), "|")
    print("| --- " * (2 + len(REQUESTS)) + "|")
    for most in MOST:
        for percentile in PERCENTILES:
            found = [worst(most, percentile, requests) for requests in REQUESTS]
            print(f"| {most:,} | p{percentile} | {' | '.join(f'{each:.2%}' for each in found)} |")


if __name__ == "__main__":
    main()
