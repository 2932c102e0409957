"""The verdict on each objective and the speedup, from the batches served before and after."""

from collections.abc import Sequence
from statistics import median

from kernels.measure.latency import Served, pooled, samples_of
from workers.documents.stages import ObjectiveOutcome, Speedup, Verdict
from workers.documents.workload import Objective
from workers.statistics import (
    count_over,
    is_difference,
    noise_floor,
    objective_value,
    paired_ratio,
    shares_over,
)
from workers.verdicts import needed_requests, overall, verdict


def outcomes(
    objectives: Sequence[Objective], before: Sequence[Served], after: Sequence[Served], usd_per_hour: float | None
) -> list[ObjectiveOutcome]:
    """One outcome per objective. A cost counts only while the other objectives hold: else it has no value."""
    found = [_outcome(each, before, after, usd_per_hour) for each in objectives]
    others = [each for each in found if each.objective.metric != "cost_per_mtok"]
    holds_before = overall([each.verdict_before for each in others])
    holds = overall([each.verdict for each in others])
    return [_while_held(each, holds_before, holds) for each in found]


def _outcome(
    objective: Objective, before: Sequence[Served], after: Sequence[Served], usd_per_hour: float | None
) -> ObjectiveOutcome:
    past, now = (pooled(side, objective.metric, objective.n, usd_per_hour) for side in (before, after))
    shares_before, shares = (shares_over(objective, side, usd_per_hour) for side in (before, after))
    return ObjectiveOutcome(
        objective=objective,
        before=objective_value(objective, past) if past else None,
        after=objective_value(objective, now) if now else None,
        verdict_before=verdict(objective.percentile, shares_before),
        verdict=verdict(objective.percentile, shares),
        samples=len(now),
        over=count_over(objective, now),
        requests=len(shares),
        needed=needed_requests(objective.percentile),
    )


def _while_held(outcome: ObjectiveOutcome, holds_before: Verdict, holds: Verdict) -> ObjectiveOutcome:
    if outcome.objective.metric != "cost_per_mtok":
        return outcome
    changes: dict[str, object] = {}
    if holds_before != "met":
        changes |= {"before": None, "verdict_before": holds_before}
    if holds != "met":
        changes |= {"after": None, "verdict": holds}
    return outcome.model_copy(update=changes)


def speedup(
    objective: Objective, before: Sequence[Served], after: Sequence[Served], usd_per_hour: float | None
) -> Speedup:
    """The paired ratio of the objective's metric, above 1 when after is better, from interleaved batches."""
    past, now = (_by_turn(objective, side, usd_per_hour) for side in (before, after))
    pair = (now, past) if objective.direction == "at_least" else (past, now)
    ratio, noise = paired_ratio(*pair), noise_floor(past, now)
    return Speedup(metric=objective.metric, ratio=ratio, noise=noise, difference=is_difference(ratio, noise))


def _by_turn(objective: Objective, served: Sequence[Served], usd_per_hour: float | None) -> list[float]:
    """One value per batch; for itl the median of its gaps."""
    turns = [samples_of(each, objective.metric, objective.n, usd_per_hour) for each in served]
    return [median(samples) for samples in turns if samples]
