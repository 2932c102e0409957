"""Which of the tried plans is taken: of those that keep every promise the cheapest by the token, or the fastest."""

from collections.abc import Sequence
from dataclasses import dataclass

from workers.charts.text import plain, quantity
from workers.documents.measurement import Interval
from workers.documents.model import Counted
from workers.documents.stages import PlanTrial
from workers.documents.workload import Objective, Workload
from workers.planning import ranking
from workers.verdicts import CONFIDENCE

MOST_NAMED = 3
"""Alternatives that the sentence names at most."""


@dataclass(frozen=True)
class Choice:
    """The trial that is taken; `sentence` has the alternatives where the cheapest plan and the fastest are two."""

    trial: PlanTrial
    sentence: str = ""


def choose(trials: Sequence[PlanTrial], workload: Workload, counted: Counted) -> Choice | None:
    """The plan by the workload's `prefer`; the fastest where no plan is shown to keep every promise."""
    objectives, cheap = workload.objectives, workload.constraints.prefer == "cheapest"
    fastest = ranking.fastest(trials, objectives[0].direction != "at_least")
    if fastest is None:
        return None
    keepers = keeping(trials, objectives)
    keepers.sort(key=lambda each: each is not fastest)  # the fastest is taken unless another is cheaper beyond noise
    cheapest = keepers[0] if keepers else fastest
    for each in keepers[1:]:
        if cost_of(each).high < cost_of(cheapest).low:
            cheapest = each
    if cheapest is fastest:
        return Choice(fastest)
    taken = cheapest if cheap else fastest
    return Choice(taken, _sentence(taken, cheapest, keepers, counted))


def keeping(trials: Sequence[PlanTrial], objectives: Sequence[Objective]) -> list[PlanTrial]:
    """The trials of which the quick measurement shows, at 99 % confidence, that they keep every promise.

    A promise relative to today is kept where the intervals of the medians say so, and only of the first objective is
    the median known.
    """
    passed = [each for each in trials if each.gate == "pass" and each.primary and each.tokens_per_second]
    if not passed or any(each.limit is None for each in objectives[1:]):
        return []
    today, first = trials[0], objectives[0]
    return [each for each in passed if each.keeps == "met" and _keeps_relative(each, today, first)]


def _keeps_relative(trial: PlanTrial, today: PlanTrial, first: Objective) -> bool:
    if first.at_least_faster is None:
        return True
    if trial.primary is None or today.primary is None:
        return False
    if first.direction == "at_least":
        return trial.primary.low >= first.at_least_faster * today.primary.high
    return trial.primary.high * first.at_least_faster <= today.primary.low


def cost_of(trial: PlanTrial) -> Interval:
    """GPU-hours of a million tokens, with the relative interval of the first objective's median.

    The trial has a rate and a median.
    """
    assert trial.primary is not None
    assert trial.tokens_per_second
    cost, middle = trial.plan.get("gpus", 1) * 1e6 / (3600 * trial.tokens_per_second), trial.primary.value
    return Interval(value=cost, low=cost * trial.primary.low / middle, high=cost * trial.primary.high / middle)


def _sentence(taken: PlanTrial, cheapest: PlanTrial, keepers: Sequence[PlanTrial], counted: Counted) -> str:
    if taken is cheapest:
        why = f"the cheapest of {len(keepers)} plans that keep every promise at {CONFIDENCE:.0%} confidence"
    else:
        why = "the fastest, which the workload asks for, though a cheaper plan keeps every promise"
    others = sorted((each for each in keepers if each is not taken), key=lambda each: cost_of(each).value)
    if taken not in keepers:
        why += ", as this one is not shown to"
    against = "; ".join(f"{each.label} {_takes(each)}" for each in others[:MOST_NAMED])
    return f"{taken.label} is {why}, in a quick comparison: {_takes(taken)} for a million {counted}; {against}."


def _takes(trial: PlanTrial) -> str:
    assert trial.primary is not None
    hours = plain(cost_of(trial).value)
    return f"takes {hours} GPU-hours ({quantity(trial.primary.value, trial.unit)})"
