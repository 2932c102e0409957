"""How long to go on measuring, and the distributions of what was measured."""

from collections.abc import Sequence

from kernels.measure.latency import Served, pooled
from workers.documents.measurement import Distribution
from workers.documents.model import ModelManifest
from workers.documents.stages import Verdict
from workers.documents.workload import Objective
from workers.statistics import distribution, shares_over
from workers.verdicts import verdict

LEAST_REQUESTS = 20
"""Fewer samples make a poor distribution, even where the percentile needs fewer."""
USUAL_METRICS = {
    "decoder": ("ttft", "tpot", "itl", "e2e", "throughput"),
    "encoder": ("batch_latency", "throughput"),
    "other": ("batch_latency", "throughput"),
}


def verdicts(objectives: Sequence[Objective], served: Sequence[Served], usd_per_hour: float | None) -> list[Verdict]:
    """The verdict on each objective after what was served so far."""
    return [verdict(each.percentile, shares_over(each, served, usd_per_hour)) for each in objectives]


def is_enough(objectives: Sequence[Objective], served: Sequence[Served], usd_per_hour: float | None) -> bool:
    """Whether every objective is proven met or missed."""
    return len(served) >= LEAST_REQUESTS and {*verdicts(objectives, served, usd_per_hour)} <= {"met", "missed"}


def distributions(
    model: ModelManifest, objectives: Sequence[Objective], served: Sequence[Served], usd_per_hour: float | None
) -> list[Distribution]:
    """The objectives' metrics first, with their percentiles, then the usual ones of the kind of model."""
    promised = [(each.metric, each.n) for each in objectives]
    usual = [(metric, None) for metric in USUAL_METRICS[model.kind]]
    found = []
    for metric, n in dict.fromkeys([*promised, *usual]):
        samples = pooled(served, metric, n, usd_per_hour)
        extra = [each.percentile for each in objectives if (each.metric, each.n) == (metric, n)]
        if samples:
            found.append(distribution(samples, metric, n, extra, model.counted))
    return found
