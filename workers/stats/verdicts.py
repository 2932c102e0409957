"""Verdicts on a promised percentile that stay right however often one looks at the samples. Numpy only.

A promise "percentile p within the limit" says that at most q = 1 - p/100 of all samples lie beyond the limit. Requests
are independent; the samples of one request (the gaps between its tokens) are not. So a request counts by the *share* of
its samples beyond the limit, a number x in [0, 1]; for a metric with one sample a request, 0 or 1. Where every request
has as many samples, the mean of the shares is the rate among all samples. Where not, x is replaced by
q + (x - q) · n / N for a request of n samples, N the most of any request (`as_pooled`): also in [0, 1], and its mean is
at most q exactly where the rate among all samples is.

The test is by betting (Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", JRSS-B
2024). For an alternative rate r the capital is multiplied by

    (1 - x) · (1 - r) / (1 - q) + x · r / q

at each request: for x of 0 or 1 the likelihood ratio of r against q. For r < q its expectation is at most 1 wherever
the true rate is q or more, so the capital, averaged over several r, passes 100 with a probability of at most 1 %,
at any time (Ville's inequality). *Met* is said when the capital of the bets on r < q is 100 or more, *missed* when that
of the bets on r > q is. Measuring may stop after any request, also because a verdict has been reached.

Requests that wait in one line are not independent: each latency has in it the service of those before it. Those that
are `spacing` places from each other are, so every `spacing`-th request makes a sequence with a capital of its own, and
a verdict is said when all sequences say it. It is wrong only where the first of them errs.

Requests may depend on each other in other ways as well: a host is slow for a while. Where g of them (`inefficiency`)
tell as much as one independent request, the numbers of requests and of those beyond the limit are divided by g, a
design effect (J. Rao, A. Scott, "A simple method for the analysis of clustered binary data", Biometrics 1992). Whatever
g of 1 or more is estimated, independent requests err no more often for it: the average of the bets' capitals, each to
the power 1/g, is at most their average to the power 1/g (Jensen), so it passes 100 only where that has.
"""

import math
from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np

from workers.documents.base import Verdict

CONFIDENCE = 0.99
"""The confidence of every verdict, met or missed. It holds at any request at which measuring stops."""
EXTREME = 0.4
"""Share of the capital that is bet on the extreme alternative: that no sample lies beyond the limit, or every one."""
MET_RATES = np.geomspace(0.08, 0.9, 10)
"""The other alternatives of *met*, as multiples of the promised rate."""
MISSED_ODDS = np.geomspace(1.05, 1e4, 24)
"""The other alternatives of *missed*, as multiples of the promised rate's odds."""


def verdict(
    percentile: float,
    shares: Sequence[float],
    confidence: float = CONFIDENCE,
    spacing: int = 1,
    inefficiency: float = 1.0,
) -> Verdict:
    """The verdict for `percentile` (a number such as 99), with each request's share of samples beyond the limit.

    Every `spacing`-th request is counted, and of those `inefficiency` (1 or more, a design effect) count as one. *Too
    close* means undecided after as many requests as a clean result takes; *not enough samples*, after fewer.
    """
    proven = {_proven(percentile, shares[first::spacing], confidence, inefficiency) for first in range(spacing)}
    if len(proven) == 1 and (decided := proven.pop()) is not None:
        return decided
    enough = _shown(percentile, len(shares) // spacing, 0, confidence, inefficiency)
    return "too_close" if enough else "not_enough_samples"


def _proven(percentile: float, shares: Sequence[float], confidence: float, inefficiency: float) -> Verdict | None:
    """Met or missed, by the shares of requests, `inefficiency` of them counting as one; None while neither is shown."""
    rate, (values, counts) = 1 - percentile / 100, np.unique(np.asarray(shares, dtype=float), return_counts=True)
    sides: tuple[Verdict, ...] = ("met", "missed")
    enough, weights = -math.log(1 - confidence), counts / inefficiency
    return next((side for side in sides if log_capital(rate, values, weights, side) >= enough), None)


def as_pooled(percentile: float, shares: Sequence[float], counts: Sequence[int]) -> list[float]:
    """The shares of requests of so many samples each, as a mean over all samples takes them. `counts` are 1 or more."""
    rate, most = 1 - percentile / 100, max(counts, default=1)
    if min(counts, default=1) == most:
        return list(shares)
    return [rate + (share - rate) * count / most for share, count in zip(shares, counts, strict=True)]


@lru_cache
def needed_requests(percentile: float, over: int = 0, confidence: float = CONFIDENCE, inefficiency: float = 1.0) -> int:
    """The fewest requests that show `percentile` when `over` lie beyond; `inefficiency` of them count as one."""
    low, high = over, over + 1
    while not _shown(percentile, high, over, confidence, inefficiency):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _shown(percentile, middle, over, confidence, inefficiency) else (middle, high)
    return high


def _shown(percentile: float, count: int, over: int, confidence: float, inefficiency: float) -> bool:
    """Whether so many requests, `over` of them wholly beyond the limit, show `percentile` within it."""
    values, counts = np.array([0.0, 1.0]), np.array([count - over, over]) / inefficiency
    return log_capital(1 - percentile / 100, values, counts, "met") >= -math.log(1 - confidence)


def overall(verdicts: Sequence[Verdict]) -> Verdict:
    """One verdict for all objectives: one missed misses; one undecided leaves the whole undecided."""
    undecided: tuple[Verdict, ...] = ("missed", "too_close", "not_enough_samples")
    return next((worst for worst in undecided if worst in verdicts), "met")


@cache
def bets(rate: float, side: str) -> tuple[np.ndarray, np.ndarray]:
    """Alternative rates on one side of `rate`, the extreme one first, and the logarithms of their weights."""
    if side == "met":
        rates = np.concatenate([[0.0], rate * MET_RATES])
    else:
        odds = rate / (1 - rate) * MISSED_ODDS
        rates = np.concatenate([[1.0], odds / (1 + odds)])
    others = len(rates) - 1
    return rates, np.log(np.concatenate([[EXTREME], np.full(others, (1 - EXTREME) / others)]))


def log_capital(rate: float, values: np.ndarray, counts: np.ndarray, side: str) -> float:
    """Logarithm of the capital after requests with shares `values`, each `counts` times, whole or not, in any order."""
    rates, log_weights = bets(rate, side)
    factors = (1 - values) * ((1 - rates) / (1 - rate))[:, None] + values * (rates / rate)[:, None]
    seen = counts > 0
    with np.errstate(divide="ignore"):
        logs = log_weights + (np.log(factors[:, seen]) * counts[seen]).sum(axis=1)
    largest = logs.max()
    return float(largest + np.log(np.exp(logs - largest).sum())) if largest > -math.inf else -math.inf
