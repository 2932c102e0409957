"""How long to go on measuring, and the distributions of what was measured."""

from collections.abc import Sequence

from kernels.measure.latency import Served, pooled
from workers.documents.base import Verdict
from workers.documents.measurement import Distribution
from workers.documents.model import ModelManifest
from workers.documents.workload import Objective
from workers.statistics import distribution, independent_spacing, shares_over
from workers.verdicts import needed_requests, verdict

LEAST_REQUESTS = 20
"""Fewer samples make a poor distribution, even where the percentile needs fewer."""
PAIRS_OF_A_RATIO = 40
"""Requests of each side by which a promise relative to before is judged in one process. It is looked at once, then."""
DEFAULT_METRICS = {
    "decoder": ("ttft", "tpot", "itl", "e2e", "throughput"),
    "encoder": ("batch_latency", "throughput"),
    "other": ("batch_latency", "throughput"),
}


def verdicts(objectives: Sequence[Objective], served: Sequence[Served], usd_per_hour: float | None) -> list[Verdict]:
    """The verdict on each objective that has a limit, after what was served so far."""
    limited = [each for each in objectives if each.limit is not None]
    return [judged(each, served, usd_per_hour) for each in limited]


def judged(objective: Objective, served: Sequence[Served], usd_per_hour: float | None) -> Verdict:
    """The verdict on an objective, by the batches that are independent of each other."""
    spacing = independent_spacing(objective.metric, served)
    return verdict(objective.percentile, shares_over(objective, served, usd_per_hour), spacing=spacing)


def needed(objective: Objective, served: Sequence[Served]) -> int:
    """How many batches without a sample beyond the limit prove the objective, with clients as those of `served`."""
    return independent_spacing(objective.metric, served) * needed_requests(objective.percentile)


def is_enough(objectives: Sequence[Objective], served: Sequence[Served], usd_per_hour: float | None) -> bool:
    """Whether every objective is proven met or missed, and those relative to before have their requests."""
    ratios = [PAIRS_OF_A_RATIO * independent_spacing(each.metric, served) for each in objectives if each.limit is None]
    least = max([LEAST_REQUESTS, *ratios])
    return len(served) >= least and {*verdicts(objectives, served, usd_per_hour)} <= {"met", "missed"}


def distributions(
    model: ModelManifest, objectives: Sequence[Objective], served: Sequence[Served], usd_per_hour: float | None
) -> list[Distribution]:
    """The objectives' metrics first, with their percentiles, then the defaults of the kind of model."""
    promised = [(each.metric, each.n) for each in objectives]
    defaults = [(metric, None) for metric in DEFAULT_METRICS[model.kind]]
    found = []
    for metric, n in dict.fromkeys([*promised, *defaults]):
        samples = pooled(served, metric, n, usd_per_hour)
        extra = [each.percentile for each in objectives if (each.metric, each.n) == (metric, n)]
        if samples:
            found.append(distribution(samples, metric, n, extra, model.counted))
    return found
