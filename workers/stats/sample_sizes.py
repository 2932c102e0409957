"""How long to go on measuring, and the distributions of what was measured."""

import itertools
import math
from collections.abc import Sequence
from statistics import fmean

import numpy as np

from kernels.measure.latency import ServedBatch, pool_samples, samples_of
from workers.documents.base import Verdict
from workers.documents.measurement import Distribution, metric_key
from workers.documents.model import ModelManifest
from workers.documents.workload import Objective
from workers.stats.dependence import SMALL, cautious_inefficiency, statistical_inefficiency
from workers.stats.intervals import distribution, independent_spacing, shares_over
from workers.stats.verdicts import needed_requests, verdict

MIN_REQUESTS = 20
"""Fewer samples make a poor distribution, even where the percentile needs fewer."""
PAIRS_OF_A_RATIO = 40
"""Requests of each side by which a promise relative to before is judged in one process. It is looked at once, then."""
DEFAULT_METRICS = {
    "decoder": ("ttft", "tpot", "itl", "e2e", "throughput"),
    "encoder": ("batch_latency", "throughput"),
    "other": ("batch_latency", "throughput"),
}


def verdicts(
    objectives: Sequence[Objective], served: Sequence[ServedBatch], usd_per_hour: float | None
) -> list[Verdict]:
    """The verdict on each objective that has a limit, after what was served so far."""
    limited = [objective for objective in objectives if objective.limit is not None]
    return [judge_objective(objective, [served], usd_per_hour) for objective in limited]


def judge_objective(
    objective: Objective, processes: Sequence[Sequence[ServedBatch]], usd_per_hour: float | None
) -> Verdict:
    """The verdict on an objective, by the batches of all processes that served. Without a limit, as if it were kept."""
    values, shares = _by_process(objective, processes, usd_per_hour)
    return judge_values(objective, values, shares, _spacing(objective, processes))


def judge_values(
    objective: Objective, values: Sequence[Sequence[float]], shares: Sequence[Sequence[float]], spacing: int = 1
) -> Verdict:
    """The verdict on an objective by each batch's mean sample, above 0, and its share of samples beyond the limit.

    `values` and `shares` have one list for each process, none of them empty.
    """
    inefficiency = _inefficiency(objective, values, shares, spacing)
    return verdict(objective.percentile, [*itertools.chain(*shares)], spacing=spacing, inefficiency=inefficiency)


def needed_batches(objective: Objective, processes: Sequence[Sequence[ServedBatch]], usd_per_hour: float | None) -> int:
    """How many batches without a sample beyond the limit prove the objective, with clients as those of `processes`, and
    batches that depend on each other as these do. Of a promise relative to before, as if they did not.
    """
    spacing = _spacing(objective, processes)
    inefficiency = _inefficiency(objective, *_by_process(objective, processes, usd_per_hour), spacing)
    return spacing * needed_requests(objective.percentile, inefficiency=inefficiency)


def _spacing(objective: Objective, processes: Sequence[Sequence[ServedBatch]]) -> int:
    """`independent_spacing` of the process whose batches depend on each other most."""
    return max((independent_spacing(objective.metric, served) for served in processes), default=1)


def _by_process(
    objective: Objective, processes: Sequence[Sequence[ServedBatch]], usd_per_hour: float | None
) -> tuple[list[list[float]], list[list[float]]]:
    """The mean of each batch's samples of the metric, and the share beyond the limit; of processes that have any."""
    values, shares = [], []
    for served in processes:
        by_batch = (samples_of(batch, objective.metric, objective.n, usd_per_hour) for batch in served)
        if means := [fmean(samples) for samples in by_batch if samples]:
            values.append(means)
            shares.append(shares_over(objective, served, usd_per_hour))
    return values, shares


def _inefficiency(
    objective: Objective, values: Sequence[Sequence[float]], shares: Sequence[Sequence[float]], spacing: int
) -> float:
    """How many of the batches that lie `spacing` places from each other count as one: 1 or more, to one decimal.

    By the logarithms of the values, since times vary by factors, or by the shares, whichever says more. What whole
    processes differ by is taken out: a promise that is broken is taken to be broken in each process.
    """
    if objective.limit is None or not values:
        return 1.0
    logs = [np.log(np.maximum(process, np.finfo(float).tiny)) for process in values]
    small = SMALL * min(abs(math.log(objective.limit) - float(np.median(process))) for process in logs)
    within, beyond = (np.concatenate([_centred(values) for values in side]) for side in (logs, shares))
    inefficiency = max(cautious_inefficiency(within, small, spacing), statistical_inefficiency(beyond, spacing=spacing))
    return round(inefficiency, 1)


def _centred(values: Sequence[float] | np.ndarray) -> np.ndarray:
    """The values less their mean; exactly 0 where all are equal."""
    logs = np.asarray(values, dtype=float)
    return logs - logs.mean() if np.ptp(logs) else np.zeros_like(logs)


def is_enough(objectives: Sequence[Objective], served: Sequence[ServedBatch], usd_per_hour: float | None) -> bool:
    """Whether every objective is proven met or missed, and those relative to before have their requests."""
    relative = (objective for objective in objectives if objective.limit is None)
    ratios = [PAIRS_OF_A_RATIO * independent_spacing(objective.metric, served) for objective in relative]
    least = max([MIN_REQUESTS, *ratios])
    return len(served) >= least and {*verdicts(objectives, served, usd_per_hour)} <= {"met", "missed"}


def distributions(
    model: ModelManifest, objectives: Sequence[Objective], served: Sequence[ServedBatch], usd_per_hour: float | None
) -> list[Distribution]:
    """The objectives' metrics first, with their percentiles, then the defaults of the kind of model."""
    keys = [metric_key(objective) for objective in objectives]
    defaults = [(metric, None) for metric in DEFAULT_METRICS[model.kind]]
    measured = []
    for metric, n in dict.fromkeys([*keys, *defaults]):
        samples = pool_samples(served, metric, n, usd_per_hour)
        extra = [objective.percentile for objective in objectives if metric_key(objective) == (metric, n)]
        if samples:
            measured.append(distribution(samples, metric, n, extra, model.counted))
    return measured
