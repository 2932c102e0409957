"""The verdict of a whole run, and the sentences that say it."""

from collections.abc import Sequence

from workers.documents.base import Verdict
from workers.documents.left_out import LeftOut
from workers.documents.measurement import Environment
from workers.documents.quality import Quality
from workers.documents.speedup import Speedup
from workers.documents.stages import ObjectiveOutcome, PlanTrial, Results
from workers.documents.workload import Objective
from workers.planning.confirmation import PlanMeasurement
from workers.stats.verdicts import needed_requests, overall
from workers.wording.text import capitalised, in_a_sentence, number, objective_limit, percent, plain, quantity, times


def sentence(
    outcomes: Sequence[ObjectiveOutcome],
    gain: Speedup,
    judged: Quality | None,
    verdict: Verdict,
    no_quality: str = "",
    before: str = "before",
) -> str:
    """The result in a few sentences. `no_quality` is why quality was not judged; `before` names what ran before."""
    parts = [_objective_words(outcome) for outcome in outcomes]
    parts += [_change_words(outcomes[0].objective, gain, before), gain.drift_words if gain.difference else ""]
    if judged is None:
        parts += [f"Quality could not be measured: {no_quality}."]
    else:
        parts.append(judged.summary)
    return " ".join([f"The SLA is {in_a_sentence(verdict)}.", *filter(None, parts)])


def no_change_sentence(
    attempts: Sequence[PlanMeasurement],
    left_out: Sequence[str],
    outcomes: Sequence[ObjectiveOutcome],
    verdict: Verdict,
    ended: Sequence[LeftOut] = (),
) -> str:
    """Whether today's holds, and why no plan is recommended: those `left_out` for time, and `ended` with a process."""
    reasons = [f"“{item.key}”: {item.sentence}" for item in ended]
    reasons += [f"“{attempt.label}”: {attempt.why_not}" if attempt.changed else attempt.why_not for attempt in attempts]
    if left_out:
        reasons.append(f"Time was short to verify {' and '.join(left_out)}.")
    values = " ".join(_objective_words(outcome.model_copy(update={"before": None})) for outcome in outcomes)
    if attempts[-1].no_quality:
        reasons.append(f"Quality could not be measured: {attempts[-1].no_quality}.")
    sla = f"With {attempts[-1].baseline_name} the SLA is {in_a_sentence(verdict)}."
    return f"{sla} {values} No change is recommended. {' '.join(reasons)}"


def busy_share(results: Results, verified: Environment) -> float | None:
    """The largest share of the CPU that other programs used while plans were tried and `verified`; None below BUSY.

    A busy machine also leaves plans untried, since they take longer to build on it.
    """
    tried = [result.environment.telemetry for result in (results.explore, results.compose) if result]
    return verified.with_busiest(tried).busy_share


def busy_words(busy: float | None, verdict: Verdict) -> str:
    """That other programs may be why nothing is decided, as a sentence; "" where it is, or `busy` is None."""
    if busy is None or verdict in ("met", "missed"):
        return ""
    return (
        f"Nothing is decided: the machine was busy. Other programs used up to {percent(busy, 0)} of the CPU, without "
        "which the promises may be kept. Run it again on an idle machine."
    )


def turns_words(turns: int, turns_before: int) -> str:
    """That a plan and what runs today were measured in so many turns, as a sentence; "" for none."""
    if not turns:
        return ""
    more = f"; what runs today took {turns_before - turns} more" if turns_before > turns else ""
    return f"Before and after do not fit into memory beside each other, so they took turns, {turns} of each{more}."


def left_out_words(left_out: Sequence[PlanTrial], objective: Objective, verdict: Verdict) -> str:
    """Which plans were not tried for want of time, as a sentence; "" for none, or where the SLA is met.

    `left_out` of a verdict that is not *missed* are those that may keep the promise, whyever they were not verified.
    """
    if not left_out or verdict == "met":
        return ""
    names = ", ".join(
        f"{trial.label} (predicted: {quantity(trial.predicted, trial.unit)})" if trial.predicted else trial.label
        for trial in left_out
    )
    if verdict == "missed":
        return f"Missed by the plans that were tried. There was no time to try {names}."
    verb = "was" if len(left_out) == 1 else "were"
    promise = f"{objective.label} {'of' if objective.limit else 'at'} {_limit_words(objective)}"
    return f"Undecided: {names} may keep {promise}, and {verb} not verified."


def _limit_words(objective: Objective) -> str:
    """`at most 100 ms`, `1.5x faster than today`."""
    if objective.limit is None:
        than = "as" if objective.direction == "at_least" else "than"
        return f"{objective_limit(objective).removeprefix('≥ ')} {than} today"
    return f"{objective.direction.replace('_', ' ')} {objective.limit:,.10g} {objective.unit}"


def _change_words(objective: Objective, gain: Speedup, before: str) -> str:
    """The speedup as a sentence. It is a ratio of medians, whichever percentile was promised."""
    ratio = gain.ratio
    if not gain.difference:
        return f"The change of {number(ratio.value)}x is no difference: repeats vary as much."
    low, high = (ratio.low, ratio.high) if ratio.value >= 1 else (1 / ratio.high, 1 / ratio.low)
    change = f"The median {objective.title} is {times(ratio.value, objective.unit)} than {before}"
    mean = "geometric mean, " if gain.across else ""
    return f"{change} ({mean}95 % interval {number(low)}x to {number(high)}x, {gain.scope})."


def _objective_words(outcome: ObjectiveOutcome) -> str:
    """One sentence: what was found, what is promised, what it was before; a second one where that decides nothing."""
    objective, unit = outcome.objective, outcome.objective.unit
    value = "has no value"
    if outcome.after is not None:
        value = f"is {_digits_beside(outcome.after, objective.limit)} {unit}"
    words = f"{capitalised(objective.label)} {value} where {_limit_words(objective)} is promised"
    if outcome.before is not None:
        words += f"; before, it was {_digits_beside(outcome.before, objective.limit)} {unit}"
    ratio = outcome.ratio
    if ratio is not None and not outcome.void:
        sentence = f"it is {plain(ratio.value)}x (95 % interval {plain(ratio.low)}x to {plain(ratio.high)}x)"
        words += f", and {'nothing is changed' if ratio.low == ratio.high == 1 else sentence}"
    return " ".join(filter(None, [f"{words}.", _undecided_words(outcome)]))


def _digits_beside(value: float, limit: float | None) -> str:
    """The value by the three digits that tables have, or as many more as tell it from the limit."""
    if limit is None or value == limit:
        return plain(value)
    return plain(value, next((digits for digits in (3, 4, 5) if plain(value, digits) != plain(limit, digits)), 6))


def _undecided_words(outcome: ObjectiveOutcome) -> str:
    """Why the outcome decides nothing, as a sentence; "" where it is met or missed, or its ratio says it."""
    if outcome.void:
        return "This figure decides nothing."
    if outcome.verdict == "not_enough_samples":
        alike = outcome.ratio is None and outcome.needed > needed_requests(outcome.objective.percentile)
        why = ", since those that follow each other are alike" if alike else ""
        return f"That takes {outcome.needed:,} requests or more{why}; there are {outcome.requests:,}."
    if outcome.missed_in:
        return f"That is too close to call: the requests of {outcome.missed_in} of the processes miss it."
    if outcome.verdict == "too_close" and outcome.ratio is None:
        share, allowed = outcome.over / outcome.samples, 100 - outcome.objective.percentile
        return (
            f"That is too close to call: {outcome.over:,} of {outcome.samples:,} samples lie beyond the limit, "
            f"which is {percent(share, 2)} where {allowed:.10g} % of all may."
        )
    return ""


def overall_verdict(outcomes: Sequence[ObjectiveOutcome], judged: Quality | None, changed: bool) -> Verdict:
    """The verdict on objectives and quality. A plan that `changed` the model is met only with proven quality."""
    if judged is not None and not judged.acceptable:
        return "missed"
    verdict = overall([outcome.verdict for outcome in outcomes])
    proven = judged is not None and judged.tokens >= judged.needed
    return "not_enough_samples" if verdict == "met" and changed and not proven else verdict
