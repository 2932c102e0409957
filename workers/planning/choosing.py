"""Which of the tried plans is taken: of those that keep every promise the cheapest by the token, or the fastest."""

from collections.abc import Sequence
from dataclasses import dataclass

from workers.documents.model import CountedUnit
from workers.documents.stages import PlanTrial, StageInput
from workers.documents.workload import Objective, Workload
from workers.planning import ranking
from workers.prediction.predict import MEDIAN
from workers.stats.verdicts import CONFIDENCE
from workers.wording.text import percent, plain, quantity

MAX_NAMED = 3
"""Alternatives that the sentence names at most."""
MIN_SAVING = 0.02
"""A smaller share of the cost is no reason to take a slower plan. The trials keep no interval of their rate."""


@dataclass(frozen=True)
class ChosenPlan:
    """The trial that is taken; `sentence` has the alternatives where the cheapest plan and the fastest are two."""

    trial: PlanTrial
    sentence: str = ""


def choose_plan(trials: Sequence[PlanTrial], workload: Workload, counted: CountedUnit) -> ChosenPlan | None:
    """The plan by the workload's `prefer`; the most hopeful where no plan is shown to keep every promise."""
    objectives, cheap = workload.objectives, workload.constraints.prefer == "cheapest"
    lower = objectives[0].direction != "at_least"
    fastest_of_all, feasible = ranking.fastest(trials, lower), feasible_trials(trials, objectives)
    fastest = ranking.fastest(feasible, lower)
    if fastest is None:
        hopeful = ranking.hopeful(trials, lower)
        return ChosenPlan(hopeful) if hopeful else None
    cheapest = min(feasible, key=cost_of)
    if cost_of(cheapest) > (1 - MIN_SAVING) * cost_of(fastest):
        cheapest = fastest
    choice = cheapest if cheap else fastest
    if choice is cheapest and choice is fastest_of_all:
        return ChosenPlan(choice)
    return ChosenPlan(choice, _sentence(choice, cheapest, feasible, cheap, counted))


def feasible_trials(trials: Sequence[PlanTrial], objectives: Sequence[Objective]) -> list[PlanTrial]:
    """The trials that keep every promise, by the quick measurement and at 99 % confidence.

    A promise relative to today is kept where the intervals of the medians say so, and only of the first objective is
    the median known.
    """
    passed = [trial for trial in trials if trial.gate == "pass" and trial.primary and trial.tokens_per_second]
    if not passed or any(objective.limit is None for objective in objectives[1:]):
        return []
    baseline, first = trials[0], objectives[0]
    return [trial for trial in passed if keeps_promises(trial, baseline, first)]


def keeps_promises(trial: PlanTrial, baseline: PlanTrial, first: Objective) -> bool:
    """Whether the trial is shown to keep every promise with a limit, and `first` where it is relative to `baseline`."""
    if trial.keeps != "met" or first.at_least_faster is None:
        return trial.keeps == "met"
    if trial.primary is None or baseline.primary is None:
        return False
    if first.direction == "at_least":
        return trial.primary.low >= first.at_least_faster * baseline.primary.high
    return trial.primary.high * first.at_least_faster <= baseline.primary.low


def meets_objective(value: float | None, objective: Objective, before: float | None = None) -> bool:
    """Whether a predicted median lies within the promise's limit, that of a relative promise by the median `before`.

    False where nothing is predicted or limited.
    """
    limit = objective.limit_beside(before)
    if value is None or limit is None:
        return False
    if objective.direction == "at_least":
        return value >= limit
    return objective.percentile >= MEDIAN and value <= limit


def median_before(document: StageInput) -> float | None:
    """Baseline's median of the first objective's metric, in its unit; None where there is none."""
    baseline = document.results.baseline
    return baseline.primary.value if baseline and baseline.primary else None


def predicted_to_keep(
    trials: Sequence[PlanTrial], objective: Objective, before: float | None = None
) -> list[PlanTrial]:
    """Those of the trials that keep the promise, by their measurement or else by their prediction; a relative promise
    beside the median `before`.
    """

    def keeps(trial: PlanTrial) -> bool:
        value = trial.primary.value if trial.primary else trial.predicted
        if trial.primary and (trial.keeps != "met" or objective.at_least_faster is None):
            return trial.keeps == "met"
        return meets_objective(value, objective, before)

    return [trial for trial in trials if keeps(trial)]


def cost_of(trial: PlanTrial) -> float:
    """GPU-hours of a million tokens, by the rate of the quick measurement, which the trial has."""
    assert trial.tokens_per_second
    return float(trial.plan.get("tensor_parallel_size", 1) * 1e6 / (3600 * trial.tokens_per_second))


def _sentence(
    choice: PlanTrial, cheapest: PlanTrial, feasible: Sequence[PlanTrial], cheap: bool, counted: CountedUnit
) -> str:
    others = sorted((trial for trial in feasible if trial is not choice), key=cost_of)
    sure = f"at {percent(CONFIDENCE, 0)} confidence"
    if others:
        best = "cheapest" if cheap and cost_of(choice) <= cost_of(others[0]) else "fastest"
        why = f"the {best} of {len(feasible)} plans that keep every promise, each {sure}"
    else:
        why = f"the only plan that is shown to keep every promise, {sure}"
    if choice is not cheapest:
        why += f", which the workload asks for, though {cheapest.label} is cheaper"
    costs = [
        f"{_takes(choice)} for a million {counted}",
        *(f"{trial.label} {_takes(trial)}" for trial in others[:MAX_NAMED]),
    ]
    return f"{choice.label} is {why}, in a quick comparison: {'; '.join(costs)}."


def _takes(trial: PlanTrial) -> str:
    assert trial.primary is not None
    return f"takes {plain(cost_of(trial))} GPU-hours ({quantity(trial.primary.value, trial.unit)})"
