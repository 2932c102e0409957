"""The median of samples, or another percentile, with its 95 % interval. Imports without torch."""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from statistics import fmean, stdev

STUDENT = {2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
"""The 97.5 % quantiles of Student's t, by degrees of freedom."""


def median_interval(samples: Sequence[float]) -> tuple[float, float, float]:
    """Median and 95 % interval by order statistics (the range below 6 samples). Raises ValueError without any."""
    if not samples:
        raise ValueError("an interval needs at least one sample")
    ordered, n = sorted(samples), len(samples)
    middle = ordered[n // 2] if n % 2 else (ordered[n // 2 - 1] + ordered[n // 2]) / 2
    low, high = _ranks(n, 50)
    return middle, ordered[low], ordered[high]


def percentile(ordered: Sequence[float], p: float) -> float:
    """sorted[floor(n·p)] of sorted samples, `p` such as 50, no interpolation. Raises ValueError outside [0, 100)."""
    if not ordered or not 0 <= p < 100:
        raise ValueError(f"percentile {p} of {len(ordered)} samples does not exist")
    return ordered[math.floor(len(ordered) * Fraction(str(p)) / 100)]


def percentile_interval(samples: Sequence[float], p: float, alike: float = 1.0) -> tuple[float, float, float]:
    """The `percentile` of samples, and its 95 % interval.

    `alike` samples tell as much as one independent sample: the effective sample size is n / alike. The interval's ends
    are order statistics. Between them lies, in 95 of 100 cases, the number of samples below the true percentile: a
    binomial with n / alike and p, times alike. Where too few samples lie beyond the percentile, the end is the last
    one.
    Raises ValueError as `percentile`.
    """
    ordered = sorted(samples)
    count, value = max(1, int(len(ordered) / alike)), percentile(ordered, p)
    low, high = _ranks(count, p)
    return value, ordered[low * len(ordered) // count], ordered[-(-(high + 1) * len(ordered) // count) - 1]


def across_processes(values: Sequence[float]) -> tuple[float, float, float]:
    """The geometric mean of one value a process with Student's 95 % interval of the logarithm, which contains the
    smallest and the largest. Raises ValueError for fewer than 3 or more than 10 values.
    """
    freedom = len(values) - 1
    if freedom not in STUDENT:
        raise ValueError(f"{len(values)} processes: their spread takes 3 to {max(STUDENT) + 1}")
    logs = [math.log(value) for value in values]
    middle, half = fmean(logs), STUDENT[freedom] * stdev(logs) / math.sqrt(len(values))
    return math.exp(middle), min(math.exp(middle - half), *values), max(math.exp(middle + half), *values)


@cache
def _ranks(n: int, p: float) -> tuple[int, int]:
    """Ranks of the interval's ends, from 0: of a binomial with n and p, at most 2.5 % lie beyond each."""
    q, low, cumulative = p / 100, 0, 0.0
    for below in range(n + 1):
        log = math.lgamma(n + 1) - math.lgamma(below + 1) - math.lgamma(n - below + 1)
        log += (below * math.log(q) if below else 0.0) + ((n - below) * math.log1p(-q))
        cumulative += math.exp(log) if q else float(below == 0)
        if cumulative <= 0.025:
            low = below
        if cumulative >= 0.975:
            return low, min(below, n - 1)
    return low, n - 1
