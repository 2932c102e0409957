"""How far the medians of a run lie from those of another run, with an interval."""

import math

from kernels.measure.intervals import STUDENT, across_processes
from workers.documents.measurement import Interval, MetricKey, metric_key
from workers.documents.stages import Results
from workers.stats.intervals import median_interval


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
            by_metric[key] = median_interval(measured.samples)
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
