"""The median of samples with its 95 % interval. Imports without torch."""

from collections.abc import Sequence
from functools import cache


def median_interval(samples: Sequence[float]) -> tuple[float, float, float]:
    """Median and its 95 % interval from order statistics (binomial, exact; the whole range below 6 samples).

    Raises ValueError when there is no sample.
    """
    if not samples:
        raise ValueError("an interval needs at least one sample")
    ordered, n = sorted(samples), len(samples)
    middle = ordered[n // 2] if n % 2 else (ordered[n // 2 - 1] + ordered[n // 2]) / 2
    outside = _outside(n)
    return middle, ordered[outside], ordered[n - 1 - outside]


@cache
def _outside(n: int) -> int:
    """How many samples lie outside the interval on either side: the most that keeps 95 % coverage."""
    if n >= 1000:
        return int(n / 2 - 0.98 * n**0.5) - 1
    probability, cumulative = 0.5**n, 0.0
    for below in range(n):
        cumulative += probability
        if cumulative > 0.025:
            return max(0, below - 1)
        probability *= (n - below) / (below + 1)
    return 0
