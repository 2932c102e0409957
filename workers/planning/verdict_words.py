"""The verdict of a whole run, and the sentences that say it."""

from collections.abc import Sequence

from workers.charts.text import plain, promised, times
from workers.documents.base import Verdict
from workers.documents.left_out import LeftOut
from workers.documents.quality import Quality
from workers.documents.speedup import Speedup
from workers.documents.stages import ObjectiveOutcome
from workers.documents.workload import Objective
from workers.planning.confirmation import Attempt
from workers.verdicts import overall

SAID: dict[Verdict, str] = {
    "met": "met",
    "missed": "missed",
    "too_close": "too close to call",
    "not_enough_samples": "undecided",
}


def sentence(
    found: Sequence[ObjectiveOutcome],
    gain: Speedup,
    judged: Quality | None,
    verdict: Verdict,
    no_quality: str = "",
    before: str = "before",
) -> str:
    """The result in one honest sentence. `no_quality` is why quality was not judged; `before` names what ran before."""
    parts = [_objective_words(each) for each in found]
    changed = _change_words(found[0].objective, gain, before)
    if judged is None:
        fidelity = f"quality could not be measured: {no_quality}"
    elif judged.acceptable and judged.tokens < judged.needed:
        fidelity = f"{judged.called} is undecided after {judged.tokens:,} of {judged.needed:,} {judged.compared}"
    else:
        fidelity = f"{judged.called} is {'acceptable' if judged.acceptable else 'not acceptable'}"
    return f"The SLA is {SAID[verdict]}: {'; '.join(parts)}; {changed}; {fidelity}."


def no_change_sentence(
    tried: Sequence[Attempt],
    left_out: Sequence[str],
    found: Sequence[ObjectiveOutcome],
    verdict: Verdict,
    ended: Sequence[LeftOut] = (),
) -> str:
    """Why no plan is recommended, and whether what runs today meets the SLA.

    `left_out` are labels of plans that time was short for, `ended` are plans that ended verify's process.
    """
    reasons = [f"{each.key}: {each.sentence}" for each in ended]
    reasons += [f"{each.label}: {each.why_not}" if each.changed else each.why_not for each in tried]
    if left_out:
        reasons.append(f"Time was short to verify {' and '.join(left_out)}.")
    values = "; ".join(_objective_words(each.model_copy(update={"before": None})) for each in found)
    if tried[-1].no_quality:
        reasons.append(f"Quality could not be measured: {tried[-1].no_quality}.")
    return f"No change is recommended. {' '.join(reasons)} With {tried[-1].today} the SLA is {SAID[verdict]}: {values}."


def _change_words(objective: Objective, gain: Speedup, before: str) -> str:
    """The speedup as a sentence. It is a ratio of medians, whichever percentile was promised."""
    ratio = gain.ratio
    if not gain.difference:
        return f"the change of {ratio.value:.2f}x lies inside the noise floor, which is no difference"
    low, high = (ratio.low, ratio.high) if ratio.value >= 1 else (1 / ratio.high, 1 / ratio.low)
    change = f"the median {objective.title} is {times(ratio.value, objective.unit)} than {before}"
    drifted = f" ({gain.drift_words.rstrip('.')})" if gain.drifts else ""
    return f"{change} ({low:.2f} to {high:.2f} {gain.scope}){drifted}"


def _objective_words(outcome: ObjectiveOutcome) -> str:
    objective = outcome.objective
    value = f"{plain(outcome.after, 4)} {objective.unit}" if outcome.after is not None else "without a value"
    before = f" ({plain(outcome.before, 4)} before)" if outcome.before is not None else ""
    if objective.limit is None:
        than = "as" if objective.direction == "at_least" else "than"
        limit = f"{promised(objective).removeprefix('≥ ')} {than} today"
    else:
        limit = f"{objective.direction.replace('_', ' ')} {objective.limit:,.10g} {objective.unit}"
    words = f"{objective.label} is {value}{before}, promised {limit}"
    if outcome.void:
        return f"{words}, which is void"
    if outcome.verdict == "not_enough_samples":
        words += f", {outcome.requests:,} requests of the {outcome.needed:,} or more it takes"
    if outcome.missed_in:
        return f"{words}, too close to call: the requests of {outcome.missed_in} of the processes miss it"
    if outcome.ratio is not None and outcome.ratio.low == outcome.ratio.high == 1:
        return f"{words}, and nothing is changed"
    if outcome.ratio is not None:
        low, high = plain(outcome.ratio.low), plain(outcome.ratio.high)
        return f"{words}, and found {plain(outcome.ratio.value)}x (95 % interval {low} to {high})"
    if outcome.verdict == "too_close":
        share, allowed = outcome.over / outcome.samples, 100 - objective.percentile
        words += (
            f", too close to call: {outcome.over:,} of {outcome.samples:,} samples ({share:.2%}) lie beyond the limit, "
            f"where {allowed:.10g} % of all may"
        )
    return words


def overall_verdict(found: Sequence[ObjectiveOutcome], judged: Quality | None, changed: bool) -> Verdict:
    """The verdict on objectives and quality. A plan that `changed` the model is met only with proven quality."""
    if judged is not None and not judged.acceptable:
        return "missed"
    verdict = overall([each.verdict for each in found])
    proven = judged is not None and judged.tokens >= judged.needed
    return "not_enough_samples" if verdict == "met" and changed and not proven else verdict
