"""Percentiles and intervals of what was served. The metrics are those of `kernels.measure.latency`. Numpy only."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from kernels.measure import intervals
from kernels.measure.intervals import STUDENT, across_processes
from kernels.measure.latency import FROM_SENDING, ServedBatch, samples_of
from workers.documents.measurement import Distribution, Interval, MetricKey, metric_key
from workers.documents.model import CountedUnit
from workers.documents.stages import Results
from workers.documents.workload import Objective, unit_of

SHOWN_PERCENTILES = (50.0, 90.0, 95.0, 99.0)
TREND_SCORE = 3.29
"""The normal score beyond which Mann and Kendall's test calls samples a trend: 0.1 % of samples without one."""
MIN_PAIRS = 6
"""With fewer pairs an interval is the whole range, as that of a median is."""
MIN_DRIFT = 0.02
"""A trend of a smaller share is not worth a sentence."""


def distribution(
    samples: Sequence[float],
    metric: str,
    n: int | None = None,
    extra: Sequence[float] = (),
    counted: CountedUnit = "tokens",
) -> Distribution:
    """A Distribution with p50, p90, p95, p99 and the `extra` percentiles, keyed `p50`; nothing is dropped."""
    ordered = sorted(samples)
    shown = sorted({*SHOWN_PERCENTILES, *extra}) if ordered else []
    return Distribution(
        metric=metric,
        n=n,
        unit=unit_of(metric, counted),
        samples=list(samples),
        percentiles={f"p{p:g}": intervals.percentile(ordered, p) for p in shown},
    )


def objective_value(objective: Objective, samples: Sequence[float]) -> float:
    """The value that `percentile` per cent of the samples do not fall short of.

    For a floor (throughput) the samples are ordered from the best down, so that p99 is the rate that 99 % reach.
    """
    return intervals.percentile(sorted(samples, reverse=objective.direction == "at_least"), objective.percentile)


def count_over(objective: Objective, samples: Sequence[float]) -> int:
    """How many samples lie on the wrong side of the objective's limit. A sample equal to the limit meets it.

    0 for a promise relative to before: it has no limit for single samples.
    """
    if objective.limit is None:
        return 0
    limit = objective.limit
    if objective.direction == "at_least":
        return sum(value < limit for value in samples)
    return sum(value > limit for value in samples)


def shares_over(objective: Objective, served: Sequence[ServedBatch], usd_per_hour: float | None) -> list[float]:
    """The share of samples on the wrong side of the limit, for each served batch that has samples of the metric."""
    by_batch = (samples_of(batch, objective.metric, objective.n, usd_per_hour) for batch in served)
    return [count_over(objective, samples) / len(samples) for samples in by_batch if samples]


def independent_spacing(metric: str, served: Sequence[ServedBatch]) -> int:
    """The least distance, in batches, at which two batches have independent values of the metric."""
    return max((batch.waited for batch in served), default=1) if metric in FROM_SENDING else 1


def thin(samples: Sequence[float], spacing: int) -> Sequence[float]:
    """Every `spacing`-th sample, as a Markov chain is thinned; more of them where fewer than two would be left."""
    return samples[:: max(1, min(spacing, len(samples) // 2))]


def tokens_per_second(served: Sequence[ServedBatch]) -> float:
    """Tokens over the time from the first batch's start to the last one's end, on the clock of `served`."""
    if not served:
        return 0.0
    return sum(batch.requests * batch.tokens for batch in served) / _duration_s(served)


def _duration_s(served: Sequence[ServedBatch]) -> float:
    """Seconds from the first batch's start to the last one's end."""
    return (served[-1].times_ns[-1] - served[0].start_ns) / 1e9


def goodput(served: Sequence[ServedBatch], objectives: Sequence[Objective]) -> float | None:
    """Requests per second that met every objective; None when no objective is about single requests.

    A request meets an itl objective when the percentile of its own gaps does. Costs are left out, and so are promises
    relative to before.
    """
    limited = [
        objective for objective in objectives if objective.metric != "cost_per_mtok" and objective.limit is not None
    ]
    if not limited or not served:
        return None
    return sum(batch.requests for batch in served if meets(batch, limited)) / _duration_s(served)


def meets(served: ServedBatch, objectives: Sequence[Objective]) -> bool:
    """Whether one batch meets every objective; one that lacks a metric's samples does not."""
    for objective in objectives:
        samples = samples_of(served, objective.metric, objective.n)
        if not samples or count_over(objective, [objective_value(objective, samples)]):
            return False
    return True


def bootstrap(
    statistic: Callable[[np.ndarray], np.ndarray], pairs: np.ndarray, seed: int = 0, resamples: int = 2000
) -> Interval:
    """A statistic of rows with its 95 % interval by resampling whole rows, seeded.

    `pairs` [n, k]; `statistic` maps [..., n, k] to [...]. Raises ValueError when there is no row.
    """
    if len(pairs) == 0:
        raise ValueError("an interval needs at least one pair of samples")
    generator = np.random.default_rng(seed)
    rows = generator.integers(0, len(pairs), size=(resamples, len(pairs)))
    values = statistic(pairs[rows])
    low, high = np.quantile(values, [0.025, 0.975])
    return Interval(value=float(statistic(pairs)), low=float(low), high=float(high))


def _ratio_of_medians(pairs: np.ndarray) -> np.ndarray:
    medians = np.median(pairs, axis=-2)
    return medians[..., 0] / medians[..., 1]


def paired_ratio(before: Sequence[float], after: Sequence[float], spacing: int = 1) -> Interval:
    """median(before) / median(after) of interleaved samples, with the paired bootstrap's 95 % interval.

    Samples `spacing` places from each other are independent, and the interval is of those. With fewer than MIN_PAIRS
    of them it reaches from the smallest ratio of any two samples to the largest.
    """
    count = min(len(before), len(after))
    pairs = np.column_stack([before[:count], after[:count]])
    thinned_pairs = np.column_stack([thin(side[:count], spacing) for side in (before, after)])
    interval = bootstrap(_ratio_of_medians, thinned_pairs)
    low, high, value = interval.low, interval.high, float(_ratio_of_medians(pairs))
    if count < MIN_PAIRS * spacing:
        smallest, largest = pairs.min(axis=0), pairs.max(axis=0)
        low, high = float(smallest[0] / largest[1]), float(largest[0] / smallest[1])
    return Interval(value=value, low=min(low, value), high=max(high, value))


def paired_difference(before: Sequence[float], after: Sequence[float], seed: int = 0) -> Interval:
    """mean(after - before) of values taken on the same inputs, with the paired bootstrap's 95 % interval."""
    return bootstrap(
        lambda pairs: np.mean(pairs[..., 1] - pairs[..., 0], axis=-1), np.column_stack([before, after]), seed
    )


def thinned_median_interval(samples: Sequence[float], spacing: int = 1) -> Interval:
    """The median with the 95 % interval of `kernels.measure.intervals`, as a document.

    Samples `spacing` places from each other are independent, and the interval is of those; with fewer than MIN_PAIRS
    of them it is the whole range.
    """
    value, thinned_samples = intervals.median_interval(samples)[0], thin(samples, spacing)
    too_few = len(thinned_samples) < MIN_PAIRS
    _, low, high = intervals.median_interval([min(samples), max(samples)] if too_few else thinned_samples)
    return Interval(value=value, low=min(low, value), high=max(high, value))


def noise_floor(*sides: Sequence[float], spacing: int = 1) -> Interval:
    """The ratio of each side's odd samples to its even ones, as if they were two variants; the widest counts.

    Samples `spacing` places from each other are independent; those are taken. A ratio inside this interval is no
    difference. Raises ValueError when no side has two samples.
    """
    thinned_sides = [thin(side, spacing) for side in sides]
    ratios = [paired_ratio(side[0::2], side[1::2]) for side in thinned_sides if len(side) > 1]
    if not ratios:
        raise ValueError("a noise floor needs at least two samples of one side")
    value = max((ratio.value for ratio in ratios), key=lambda ratio: abs(math.log(ratio)))
    return Interval(value=value, low=min(ratio.low for ratio in ratios), high=max(ratio.high for ratio in ratios))


def is_difference(ratio: Interval, noise: Interval) -> bool:
    """Whether a speedup is one: its interval leaves out 1 and its value lies outside the noise floor."""
    outside = ratio.value < min(noise.low, 1.0) or ratio.value > max(noise.high, 1.0)
    return outside and not ratio.low <= 1.0 <= ratio.high


def ratio_across_processes(ratios: Sequence[float]) -> Interval:
    """`across_processes` of `kernels.measure.intervals` over one ratio a process, as a document. Raises as it does."""
    value, low, high = intervals.across_processes(ratios)
    return Interval(value=value, low=low, high=high)


def noise_across_processes(medians: Sequence[float]) -> Interval:
    """The largest ratio of one plan's medians in two processes; the interval holds it and its inverse."""
    largest = max(medians) / min(medians)
    return Interval(value=largest, low=1 / largest, high=largest)


def drift(samples: Sequence[float]) -> float | None:
    """Median of the second half over that of the first, where the samples drift while they are measured; else None.

    They drift when Mann and Kendall's test finds a trend at 0.1 % and the halves differ by MIN_DRIFT or more.
    """
    values, count = np.asarray(samples, dtype=float), len(samples)
    if count < 8:
        return None
    score = float(np.sign(values[None, :] - values[:, None])[np.triu_indices(count, 1)].sum())
    spread = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    ratio = float(np.median(values[count // 2 :]) / np.median(values[: count // 2]))
    drifts = abs(score) > TREND_SCORE * spread and abs(ratio - 1) >= MIN_DRIFT
    return ratio if drifts else None


def join_processes(parts: Sequence[Sequence[ServedBatch]]) -> list[ServedBatch]:
    """What several processes served, each part moved in time to begin when the one before it ended."""
    served: list[ServedBatch] = []
    for part in filter(None, parts):
        by = served[-1].times_ns[-1] - part[0].start_ns if served else 0
        served += [
            replace(
                batch,
                intended_ns=batch.intended_ns + by,
                start_ns=batch.start_ns + by,
                times_ns=tuple(time + by for time in batch.times_ns),
            )
            for batch in part
        ]
    return served


def medians(results: Results) -> dict[MetricKey, Interval]:
    """The median of each metric after, with its 95 % interval: over processes where there are three or more of them,
    which differ more than requests of one process do; else over the samples.
    """
    verify = results.verify
    if verify is None:
        return {}
    by_process = {metric_key(outcome.objective): outcome.medians for outcome in verify.outcomes}
    by_metric = {}
    for measured in verify.after:
        key = metric_key(measured)
        processes = by_process.get(key, [])
        if len(processes) - 1 in STUDENT and min(processes) > 0:
            value, low, high = across_processes(processes)
            by_metric[key] = Interval(value=value, low=low, high=high)
        elif measured.samples and min(measured.samples) > 0:
            by_metric[key] = thinned_median_interval(measured.samples)
    return by_metric


def difference(reference: Interval, other: Interval) -> Interval:
    """other / reference - 1, with the 95 % interval that follows from theirs where they are independent.

    MOVER (Donner and Zou, Stat Methods Med Res 2012, 21(4)) on logarithms: each side of the interval is the root of the
    sum of the squared distances from the values to the ends that it depends on.
    """
    middle = math.log(other.value / reference.value)
    below = math.hypot(math.log(other.value / other.low), math.log(reference.high / reference.value))
    above = math.hypot(math.log(other.high / other.value), math.log(reference.value / reference.low))
    low, value, high = (math.expm1(end) for end in (middle - below, middle, middle + above))
    return Interval(value=value, low=low, high=high)
