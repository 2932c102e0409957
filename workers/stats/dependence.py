"""How many requests of a load count as one in a verdict, which takes its observations as independent.

Requests of one queue have similar latencies. Let ρ(k) be the autocorrelation of the requests' values at lag k, in the
order in which they were due. The statistical inefficiency 1 + 2 Σ ρ(k) is how many of them carry as much information
as one independent request. Its sum is doubled here, since it is only estimated: g = 1 + 4 Σ ρ(k) requests count as
one, by the mean of their shares beyond the limit. The sum ends where two neighbouring correlations no longer sum to
more than 0 (C. Geyer, "Practical Markov chain Monte Carlo", 1992). Of an open loop, whose line may grow without end,
*met* takes MIN_GROUPS groups at least. `benchmarks.simulations.limit_errors` simulates how often such verdicts err.

Requests of a closed loop may all be answered in one batch. Then none of them need be slow for them to depend on each
other, so no correlation shows it: what shows it is that their first tokens come at the same time. So requests are put
in clusters by that time. Requests of one cluster are taken as one (a design effect with an intra-cluster correlation
of 1, L. Kish, "Survey Sampling", 1965), and the autocorrelation is that of the means of so many successive requests.

Values that stay far from the limit may be correlated all the same: the clock of a chip changes by some per mille. That
says nothing of values beyond the limit. So in a closed loop c(k) / (c(0) + e²) stands in the place of ρ(k) of the
values, c the autocovariance and e SMALL of the distance between their median and the limit: what varies by much less
than e counts as noise. `benchmarks.simulations.load_verdict_errors` simulates closed loops.

Where one looks after every request, from few requests on, Σ ρ(k) is estimated too low too often: ρ(k) of few values is
biased downwards and uncertain. `cautious_inefficiency` therefore takes the larger of g and that of an AR(1) process, to
whose ρ(1) the bias (1 + 3 ρ) / n is added back (M. Kendall, "Note on bias in the estimation of autocorrelation", 1954),
and one standard error, the root of (1 - ρ²) / n (M. Bartlett, 1946). `benchmarks.simulations.verdict_errors` simulates
such verdicts.
"""

import math
from collections.abc import Sequence
from statistics import fmean, median
from typing import NamedTuple

import numpy as np

from workers.documents.base import Verdict
from workers.stats.verdicts import as_pooled, needed_requests, verdict

MIN_GROUPS = 60
"""With fewer groups of requests of an open loop the correlation is not known well enough for *met*."""
ENOUGH_GROUPS = 16
"""However large the autocorrelation of a closed loop is, at least so many groups are left, where there are clusters.

So a p50 has its verdict on an unquiet machine as well, where all requests lie within the limit.
"""
SMALL = 0.25
"""Values of a closed loop, and of verify, that vary by less than this share of their distance to the limit count as
independent."""
TOGETHER = 0.02
"""Requests of a closed loop are of one cluster where their first tokens come within this share of a request's time."""
MIN_TOGETHER_S = 0.005
"""They are also of one cluster where they come within so many seconds: the generator's own lag may be as large."""


class LoadVerdict(NamedTuple):
    """A verdict, how many requests count as one in it, and how many without one beyond the limit prove *met*."""

    verdict: Verdict
    inefficiency: float
    needed: int


def statistical_inefficiency(values: Sequence[float] | np.ndarray, small: float = 0.0, spacing: int = 1) -> float:
    """g, how many successive requests count as one; 1 or more. `values` has one of each, in the order of due times.

    `small` is e above, in the unit of the values. Where requests `spacing` places from each other make a sequence of
    their own, g counts the requests of one such sequence.
    """
    correlations, share = _correlations(values, small)
    return _inefficiency(_sum_of(correlations[::spacing]), share)


def cautious_inefficiency(values: Sequence[float] | np.ndarray, small: float = 0.0, spacing: int = 1) -> float:
    """g as `statistical_inefficiency`, for verdicts that are looked at again and again, from few requests on."""
    correlations, share = _correlations(values, small)
    sequence = correlations[::spacing]
    count = len(sequence)
    if count < 2:
        return 1.0
    first = float(sequence[1])
    first = min(1.0, first + (1 + 3 * max(first, 0.0)) / count)
    high = first + math.sqrt((1 - first * first) / count)
    autoregressive = high / (1 - high) if high < 1 else count  # Σ ρ(k) of ρ(k) = ρ(1) to the power k
    return _inefficiency(max(_sum_of(sequence), min(autoregressive, count)), share)


def _inefficiency(total: float, share: float) -> float:
    """g of Σ ρ(k), the `share` of the variance that counts."""
    return max(1.0, 1 + 4 * total * share)


def _correlations(values: Sequence[float] | np.ndarray, small: float) -> tuple[np.ndarray, float]:
    """The autocorrelation from lag 0 on, and c(0) / (c(0) + e²), e being `small`. No lag where no value differs."""
    series = np.asarray(values, dtype=float)
    if len(series) < 2 or not np.ptp(series):
        return np.empty(0), 0.0
    centred = series - series.mean()
    count, power = len(centred), float(centred @ centred)
    spectrum = np.fft.rfft(centred, 1 << (2 * count - 1).bit_length())
    correlations = np.fft.irfft(spectrum * np.conj(spectrum))[:count] / power
    return correlations, power / (power + count * small * small)


def _sum_of(correlations: np.ndarray) -> float:
    """Σ ρ(k) from lag 1 on, while two neighbouring terms together are above 0; 0 of no correlations."""
    pairs = correlations[: len(correlations) // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0)
    return float(pairs[: ends[0] if len(ends) else None].sum()) - 1 if len(pairs) else 0.0


def group_means(shares: Sequence[float], size: float) -> list[float]:
    """The mean shares of groups of about `size` successive requests. Where `size` is 1, the shares themselves."""
    if size == 1 or not len(shares):
        return list(shares)
    groups = max(1, int(len(shares) / size))
    edges = np.linspace(0, len(shares), groups + 1).astype(int)
    sums = np.add.reduceat(np.asarray(shares, dtype=float), edges[:-1])
    means: list[float] = (sums / np.diff(edges)).tolist()
    return means


def answered_together(first_s: Sequence[float], request_s: float) -> float:
    """How many requests of a closed loop one batch answers: Σ m² / Σ m over clusters of m requests; 1 or more.

    `first_s`: when the first token of each request came, in s, ascending. `request_s`: what a request takes. A cluster
    begins with the first request behind the one before it, and has those within TOGETHER of a request's time.
    """
    at, sizes, begin = np.asarray(first_s, dtype=float), list[int](), 0
    window = max(MIN_TOGETHER_S, TOGETHER * request_s)
    while begin < len(at):
        end = int(np.searchsorted(at, at[begin] + window, side="right"))
        sizes.append(end - begin)
        begin = end
    return sum(size * size for size in sizes) / len(at) if sizes else 1.0


def load_inefficiency(
    values: Sequence[float], shares: Sequence[float], together: float | None, limit: float | None = None
) -> float:
    """How many successive requests count as one.

    `together`: how many requests of a closed loop are answered together; None of an open loop. `limit`: of the values,
    in their unit; None where there is none.
    """
    if together is None:
        return max(map(statistical_inefficiency, (values, shares)))
    means = group_means(values, together)
    small = 0.0 if limit is None or not means else SMALL * abs(limit - median(means))
    most = max(1.0, len(means) / ENOUGH_GROUPS)
    inefficiencies = (statistical_inefficiency(means, small), statistical_inefficiency(group_means(shares, together)))
    return together * min(most, max(inefficiencies))


def judge_dependent(
    percentile: float,
    values: Sequence[float],
    shares: Sequence[float],
    confidence: float,
    together: float | None = None,
    limit: float | None = None,
    counts: Sequence[int] = (),
) -> LoadVerdict:
    """The verdict on the requests of a load, whose `values` and `shares` stand in the order of their times.

    `together` and `limit` as in `load_inefficiency`. `counts`: the samples of each request, where they have several.
    """
    weighed = as_pooled(percentile, shares, counts) if counts else shares
    size, least = load_inefficiency(values, weighed, together, limit), MIN_GROUPS if together is None else 0
    decided, clean = (
        verdict(percentile, group_means(weighed, size), confidence),
        needed_requests(percentile, 0, confidence),
    )
    if decided == "met" and len(shares) < least * size:
        decided = "not_enough_samples"
    needed = size * max(clean * max(counts) / fmean(counts) if counts else clean, least)
    if decided == "too_close" and len(shares) < needed:
        decided = "not_enough_samples"
    return LoadVerdict(decided, size, math.ceil(needed))
