"""How many requests of an open loop count as one in a verdict: requests of one queue have similar latencies.

A verdict takes its observations as independent. Let ρ(k) be the autocorrelation of the requests' values at lag k, in
the order in which they were due. The statistical inefficiency 1 + 2 Σ ρ(k) is how many of them carry as much
information as one independent request. Its sum is doubled here, since it is only estimated: g = 1 + 4 Σ ρ(k) requests
count as one, by the mean of their shares beyond the limit. The sum ends where two neighbouring correlations no longer
sum to more than 0 (C. Geyer, "Practical Markov chain Monte Carlo", 1992). *Met* takes LEAST_GROUPS groups at least.
`workers.limit_errors` simulates how often such verdicts err.
"""

import math
from collections.abc import Sequence

import numpy as np

from workers.documents.base import Verdict
from workers.verdicts import needed_requests, verdict

LEAST_GROUPS = 60
"""With fewer groups of requests the correlation is not known well enough for *met*."""


def statistical_inefficiency(values: Sequence[float]) -> float:
    """g, how many successive requests count as one; 1 or more. `values` has one of each, in the order of due times."""
    found = np.asarray(values, dtype=float)
    if len(found) < 2 or not np.ptp(found):
        return 1.0
    centred = found - found.mean()
    count, power = len(centred), float(centred @ centred)
    spectrum = np.fft.rfft(centred, 1 << (2 * count - 1).bit_length())
    correlations = np.fft.irfft(spectrum * np.conj(spectrum))[:count] / power
    pairs = correlations[: count // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0)
    whole = float(pairs[: ends[0] if len(ends) else None].sum()) - 1  # without ρ(0)
    return max(1.0, 1 + 4 * whole)


def grouped(shares: Sequence[float], size: float) -> list[float]:
    """The mean shares of groups of about `size` successive requests. Where `size` is 1, the shares themselves."""
    if size == 1 or not len(shares):
        return list(shares)
    groups = max(1, int(len(shares) / size))
    edges = np.linspace(0, len(shares), groups + 1).astype(int)
    sums = np.add.reduceat(np.asarray(shares, dtype=float), edges[:-1])
    means: list[float] = (sums / np.diff(edges)).tolist()
    return means


def judged(
    percentile: float, values: Sequence[float], shares: Sequence[float], confidence: float
) -> tuple[Verdict, float, int]:
    """The verdict on requests of an open loop, how many of them count as one, and how many clean ones prove it.

    `values` and `shares` are those of each request, in the order of due times.
    """
    size = max(statistical_inefficiency(values), statistical_inefficiency(shares))
    found, needed = verdict(percentile, grouped(shares, size), confidence), needed_requests(percentile, 0, confidence)
    if found == "met" and len(shares) < LEAST_GROUPS * size:
        found = "not_enough_samples"
    return found, size, math.ceil(size * max(needed, LEAST_GROUPS))
