"""The verdict on each objective and the speedup, from the batches served before and after."""

from collections.abc import Sequence
from statistics import median

from kernels.measure.latency import ServedBatch, pool_samples, samples_of
from workers.documents.base import Verdict
from workers.documents.speedup import MIN_PROCESSES, Drift, ProcessMedians, Speedup
from workers.documents.stages import ObjectiveOutcome
from workers.documents.workload import Objective
from workers.measuring.alternation import Alternation, Hours
from workers.stats.intervals import (
    count_over,
    drift,
    independent_spacing,
    is_difference,
    noise_across_processes,
    noise_floor,
    objective_value,
    paired_ratio,
    ratio_across_processes,
    shares_over,
    thin,
)
from workers.stats.sample_sizes import judge_objective, needed_batches
from workers.stats.verdicts import overall

MIN_PAIRS_OF_A_RATIO = 9
"""With fewer pairs a promise relative to before is undecided: in a process, or of all where the interval is over
processes. verify's own measures so many at least.
"""
Sizes = tuple[int, int]
"""The numbers of GPUs that before and after run on."""
ONE_GPU: Sizes = (1, 1)


def outcomes(
    objectives: Sequence[Objective], processes: Sequence[Alternation], usd_per_hour: float | None, gpus: Sizes = ONE_GPU
) -> list[ObjectiveOutcome]:
    """One outcome per objective. A cost counts only while the other objectives hold: else it has no value.

    `usd_per_hour` is of one GPU, `gpus` the numbers that before and after run on.
    """
    hours = hours_of(usd_per_hour, gpus)
    return _costs_while_held([_outcome(objective, processes, hours) for objective in objectives])


def hours_of(usd_per_hour: float | None, gpus: Sizes) -> Hours:
    """USD per hour of before and of after, by that of one GPU."""
    return usd_per_hour and usd_per_hour * gpus[0], usd_per_hour and usd_per_hour * gpus[1]


def _costs_while_held(measured: Sequence[ObjectiveOutcome]) -> list[ObjectiveOutcome]:
    others = [outcome for outcome in measured if outcome.objective.metric != "cost_per_mtok"]
    holds_before = overall([outcome.verdict_before for outcome in others])
    holds = overall([outcome.verdict for outcome in others])
    return [_while_held(outcome, holds_before, holds) for outcome in measured]


def _outcome(objective: Objective, processes: Sequence[Alternation], hours: Hours) -> ObjectiveOutcome:
    before, after = [process.before for process in processes], [process.after for process in processes]
    samples_before, samples = (
        [value for served in side for value in pool_samples(served, objective.metric, objective.n, usd)]
        for side, usd in zip((before, after), hours, strict=True)
    )
    return ObjectiveOutcome(
        objective=objective,
        before=objective_value(objective, samples_before) if samples_before else None,
        after=objective_value(objective, samples) if samples else None,
        verdict_before=judge_objective(objective, before, hours[0]),
        verdict=judge_objective(objective, after, hours[1]),
        samples=len(samples),
        over=count_over(objective, samples),
        requests=sum(len(shares_over(objective, served, hours[1])) for served in after),
        needed=needed_batches(objective, after, hours[1]),
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


def outcomes_of(
    objectives: Sequence[Objective], processes: Sequence[Alternation], usd_per_hour: float | None, gpus: Sizes = ONE_GPU
) -> list[ObjectiveOutcome]:
    """One outcome per objective, judged by the requests of all processes.

    What all of them meet together is too close to call when the requests of one alone miss it.
    """
    result = outcomes(objectives, processes, usd_per_hour, gpus)
    result = [outcome if outcome.objective.limit else _relative(outcome, processes) for outcome in result]
    result = _costs_while_held(result)
    after = hours_of(usd_per_hour, gpus)[1]
    result = [outcome.model_copy(update={"medians": _after(outcome.objective, processes, after)}) for outcome in result]
    if len(processes) == 1:
        return result
    alone = [outcomes(objectives, [process], usd_per_hour, gpus) for process in processes]
    return [_held_by_each(outcome, [single[index] for single in alone]) for index, outcome in enumerate(result)]


def _after(objective: Objective, processes: Sequence[Alternation], usd_per_hour: float | None) -> list[float]:
    """The median of the metric after in each process; none where one has no sample of it."""
    if objective.metric == "cost_per_mtok" and usd_per_hour is None:
        return []
    served = [_by_batch(objective, process.after[: process.pairs], usd_per_hour) for process in processes]
    return [median(values) for values in served] if all(served) else []


def _relative(outcome: ObjectiveOutcome, processes: Sequence[Alternation]) -> ObjectiveOutcome:
    """The outcome of a promise relative to before, by the interval of `speedup`; today's is as fast as itself."""
    least_ratio, ratio = outcome.objective.at_least_faster or 1.0, speedup(outcome.objective, processes, None).ratio
    spacing = independent_spacing(outcome.objective.metric, processes[0].after) if len(processes) < MIN_PROCESSES else 1
    needed_pairs = spacing * MIN_PAIRS_OF_A_RATIO
    pairs = [process.pairs for process in processes]
    too_few = (min(pairs) if len(processes) < MIN_PROCESSES else sum(pairs)) < needed_pairs
    met, missed = ratio.low >= least_ratio, ratio.high < least_ratio
    verdict: Verdict = "met" if met else "missed" if missed else "too_close"
    return outcome.model_copy(
        update={
            "ratio": ratio,
            "verdict": "not_enough_samples" if too_few else verdict,
            "verdict_before": "met" if least_ratio <= 1 else "missed",
            "needed": needed_pairs,
        }
    )


def _held_by_each(outcome: ObjectiveOutcome, alone: Sequence[ObjectiveOutcome]) -> ObjectiveOutcome:
    changes: dict[str, object] = {}
    if outcome.ratio is not None:
        return outcome  # its interval contains the spread between processes
    if outcome.verdict_before == "met" and any(outcome.verdict_before == "missed" for outcome in alone):
        changes["verdict_before"] = "too_close"
    missed = sum(outcome.verdict == "missed" for outcome in alone)
    if outcome.verdict == "met" and missed:
        changes |= {"verdict": "too_close", "missed_in": missed}
    return outcome.model_copy(update=changes)


def speedup(
    objective: Objective, processes: Sequence[Alternation], usd_per_hour: float | None, gpus: Sizes = ONE_GPU
) -> Speedup:
    """The ratio of the objective's metric, above 1 when after is better, from the processes' interleaved batches.

    With fewer than MIN_PROCESSES it is that of the first process, as is the noise floor.
    """
    hours = hours_of(usd_per_hour, gpus)
    sides = [_interleaved(objective, process, hours) for process in processes]
    medians = [_medians(objective, *side) for side in sides]
    spacing = independent_spacing(objective.metric, processes[0].after)
    before, after = sides[0]
    if len(processes) < MIN_PROCESSES:
        pair = (after, before) if objective.direction == "at_least" else (before, after)
        ratio, noise = paired_ratio(*pair, spacing=spacing), noise_floor(before, after, spacing=spacing)
    else:
        ratio = ratio_across_processes([process.ratio for process in medians])
        noise = noise_across_processes([median.after for median in medians])
    return Speedup(
        metric=objective.metric,
        ratio=ratio,
        noise=noise,
        difference=is_difference(ratio, noise),
        processes=medians,
        drifts=_drifts(sides, spacing),
        turns=processes[0].turn,
    )


def _interleaved(objective: Objective, served: Alternation, hours: Hours) -> tuple[list[float], list[float]]:
    """The metric of each batch before and after, of the batches that alternated; `hours` are their USD per hour."""
    sides = served.before[: served.pairs], served.after[: served.pairs]
    before, after = (_by_batch(objective, side, usd) for side, usd in zip(sides, hours, strict=True))
    return before, after


def _medians(objective: Objective, before: Sequence[float], after: Sequence[float]) -> ProcessMedians:
    medians = median(before), median(after)
    ratio = medians[1] / medians[0] if objective.direction == "at_least" else medians[0] / medians[1]
    return ProcessMedians(before=medians[0], after=medians[1], ratio=ratio, pairs=len(after))


def _drifts(sides: Sequence[tuple[Sequence[float], Sequence[float]]], spacing: int) -> list[Drift]:
    drifts = []
    for process, (before, after) in enumerate(sides, start=1):
        if (ratio := drift(thin(before, spacing))) is not None:
            drifts.append(Drift(process=process, side="before", ratio=ratio))
        if (ratio := drift(thin(after, spacing))) is not None:
            drifts.append(Drift(process=process, side="after", ratio=ratio))
    return drifts


def _by_batch(objective: Objective, served: Sequence[ServedBatch], usd_per_hour: float | None) -> list[float]:
    """One value per batch; for itl the median of its gaps."""
    by_batch = [samples_of(batch, objective.metric, objective.n, usd_per_hour) for batch in served]
    return [median(samples) for samples in by_batch if samples]
