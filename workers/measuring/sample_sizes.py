"""Decides how many requests a verdict needs."""

from collections.abc import Sequence

from workers.documents.measurement import Distribution
from workers.documents.workload import Objective
from workers.statistics import Served, count_over, distribution, needed_samples, pooled, verdict

LEAST_REQUESTS = 20
"""Fewer samples make a poor distribution, even where the percentile needs fewer."""
USUAL_METRICS = {
    "decoder": ("ttft", "tpot", "itl", "e2e", "throughput"),
    "encoder": ("batch_latency", "throughput"),
    "other": ("batch_latency", "throughput"),
}


def is_enough(objectives: Sequence[Objective], served: Sequence[Served], usd_per_hour: float | None) -> bool:
    """Whether every objective is decided: its percentile's clean sample count is reached and proves met or missed."""
    if len(served) < LEAST_REQUESTS:
        return False
    return all(_decided(each, pooled(served, each.metric, each.n, usd_per_hour)) for each in objectives)


def _decided(objective: Objective, samples: Sequence[float]) -> bool:
    if len(samples) < needed_samples(objective.percentile):
        return False
    return verdict(objective.percentile, len(samples), count_over(objective, samples)) != "not_enough_samples"


def distributions(
    kind: str, objectives: Sequence[Objective], served: Sequence[Served], usd_per_hour: float | None
) -> list[Distribution]:
    """The objectives' metrics first, with their percentiles, then the usual ones of the kind of model."""
    promised = [(each.metric, each.n) for each in objectives]
    usual = [(metric, None) for metric in USUAL_METRICS[kind]]
    found = []
    for metric, n in dict.fromkeys([*promised, *usual]):
        samples = pooled(served, metric, n, usd_per_hour)
        extra = [each.percentile for each in objectives if (each.metric, each.n) == (metric, n)]
        if samples:
            found.append(distribution(samples, metric, n, extra))
    return found
