"""The whole-model plans that were tried, by the first objective's metric; and why the one that was chosen was.

Other engines stand beside them as peers.
"""

from typing import Any

from workers.charts.base import AFTER, BEFORE, PALETTE, Cell, Chart, Figure, Table, interval_bars, layout
from workers.documents.measurement import Interval
from workers.documents.speedup import Speedup
from workers.documents.stages import PeerTrial, PlanTrial, Results
from workers.wording.text import quantity, times

AGREEING = 1.25
"""Compose's quick comparison agrees with verify when their ratios differ by at most this factor."""
PEER = PALETTE[1]


def with_verification(results: Results) -> list[PlanTrial]:
    """The trials of compose with what verify found: the plan that stands is chosen, the others say why they do not."""
    trials, verify = results.compose.trials if results.compose else [], results.verify
    if verify is None or not verify.checks:
        return trials
    plans = []
    reasons = {check.label: check.reason for check in verify.checks if check.reason}
    for trial in trials:
        chosen = _runs(trial.plan) == _runs(verify.plan)
        reason = f"Not confirmed by verify. {reasons[trial.label]}" if trial.label in reasons else trial.reason
        if chosen and not verify.recommended:
            reason = "The baseline; no change is recommended."
        elif chosen and not trial.chosen:
            reason = "The best of the plans that verify confirmed."
        plans.append(trial.model_copy(update={"chosen": chosen, "reason": reason}))
    return plans


def _runs(plan: dict[str, Any]) -> list[Any]:
    """What tells one plan of a model from another."""
    facts = (plan.get("runner"), plan.get("dtype"), plan.get("tensor_parallel_size", 1))
    return [*facts, plan.get("options") or {}, plan.get("ops") or []]


def rank_trials(results: Results) -> list[PlanTrial]:
    """The trials, best first. Trials without a measurement come last."""
    trials = with_verification(results)
    timed = [trial for trial in trials if trial.primary is not None]
    timed.sort(key=lambda trial: (not trial.chosen, _cost(trial)))
    others = [trial for trial in trials if trial.primary is None]
    return timed + sorted(others, key=lambda trial: trial.gate == "refused")


def _cost(trial: PlanTrial) -> float:
    """The sort key of a plan: smaller is better."""
    value = _primary(trial).value
    return -value if trial.unit.endswith("/s") else value


def _primary(trial: PlanTrial) -> Interval:
    assert trial.primary is not None
    return trial.primary


def chosen_trial(results: Results) -> PlanTrial | None:
    return next((trial for trial in rank_trials(results) if trial.chosen), None)


def why(results: Results) -> str:
    """`44.6 ms in a quick comparison of 5 plans: 1.72x faster than the next, compiled (76.7 ms), and …`, or ""."""
    best = chosen_trial(results)
    timed = [trial for trial in rank_trials(results) if trial.primary is not None and not trial.chosen]
    if best is None or best.primary is None or not timed:
        return ""
    if results.verify is not None and not results.verify.recommended:
        return "It is the baseline, and no change is recommended."
    if results.compose and results.compose.choice and _runs(results.compose.plan) == _runs(best.plan):
        return results.compose.choice
    baseline = next(trial for trial in results.compose.trials if trial.primary) if results.compose else best
    gain = results.verify.speedup if results.verify else None
    if gain is not None and not _agree(best, baseline, gain):
        return f"Beside the baseline it is {times(gain.ratio.value, best.unit)} in the median, as verified."
    if best is baseline:
        nearest = f"{_measured(best)} against {_measured(timed[0])} with {timed[0].label}"
        return f"It is the baseline, and nothing was faster by more than the noise: {nearest} in a quick comparison."
    alternatives = {f"the next, {timed[0].label}": timed[0]}
    if baseline is not timed[0]:
        alternatives[f"{baseline.label}, the baseline"] = baseline
    against = ", and ".join(
        f"{_times(best, alternative)} {name} ({_measured(alternative)})" for name, alternative in alternatives.items()
    )
    return f"{_measured(best)} in a quick comparison of {len(timed) + 1} plans: {against}."


def _agree(best: PlanTrial, baseline: PlanTrial, gain: Speedup) -> bool:
    """Whether the quick comparison gave about the ratio that verify measured."""
    pair = (_primary(baseline).value, _primary(best).value)
    quick = pair[1] / pair[0] if best.unit.endswith("/s") else pair[0] / pair[1]
    return 1 / AGREEING <= quick / gain.ratio.value <= AGREEING


def precisions_of(plan: dict[str, Any]) -> set[str]:
    precisions = [op.get("case", {}).get("weights") for op in plan.get("ops") or []]
    dtype = str(plan.get("dtype", "bf16"))
    return {dtype, str((plan.get("options") or {}).get("weights", dtype)), *map(str, filter(None, precisions))}


def _times(best: PlanTrial, other: PlanTrial) -> str:
    """The ratio in words; of plans in other precisions no ratio, since only their quality makes them comparable."""
    if precisions_of(best.plan) != precisions_of(other.plan):
        return "in another precision than"
    low, high = sorted((_primary(best).value, _primary(other).value))
    better = low > 0 and _cost(best) < _cost(other)
    return f"{times(high / low, best.unit)} than" if better else "no worse, within the noise, than"


def _measured(trial: PlanTrial) -> str:
    return quantity(_primary(trial).value, trial.unit)


def peers(results: Results) -> list[PeerTrial]:
    return results.compose.peers if results.compose else []


def name_of(trial: PlanTrial | PeerTrial) -> str:
    """`megakernel (chosen)`, `vllm 0.22.1 (peer)`."""
    if isinstance(trial, PeerTrial):
        return f"{trial.label} {trial.version} (peer)".replace("  ", " ")
    return f"{trial.label} (chosen)" if trial.chosen else trial.label


def _colour(trial: PlanTrial | PeerTrial) -> str:
    if isinstance(trial, PeerTrial):
        return PEER
    return AFTER if trial.chosen else BEFORE


def figure(results: Results) -> Figure | None:
    trials: list[PlanTrial | PeerTrial] = [*rank_trials(results), *peers(results)]
    timed = [(name_of(trial), _colour(trial), trial.primary) for trial in reversed(trials) if trial.primary is not None]
    if not timed:
        return None
    unit = next(trial.unit for trial in trials if trial.primary is not None)
    form = layout(unit, "", height=120 + 44 * len(timed), xaxis={"rangemode": "tozero"})
    return {"data": [interval_bars("plan", unit, timed)], "layout": form}


def table(results: Results) -> Table:
    headers = ["plan", "what it runs", "predicted", "median", "low", "high", "unit", "gate", "chosen", "reason"]
    rows: list[list[Cell]] = []
    for trial in rank_trials(results):
        answer = "yes" if trial.chosen else "no"
        rows.append(
            [trial.label, trial.summary, trial.predicted, *_spread(trial), trial.unit, trial.gate, answer, trial.reason]
        )
    for peer in peers(results):
        what = "; ".join(f"{name} {value}" for name, value in peer.settings.items())
        name = f"{peer.label} {peer.version}".strip()
        rows.append([name, what, None, *_spread(peer), peer.unit, peer.gate, "peer", peer.sentence])
    return headers, rows


def _spread(trial: PlanTrial | PeerTrial) -> list[Cell]:
    interval = trial.primary
    return [interval.value, interval.low, interval.high] if interval else [None, None, None]


CHART = Chart(
    "plans",
    "Whole-model plans that were tried",
    "A quick measurement of the first objective's metric for each plan in one process, with its 95 % interval there. "
    "Verify measures today's and the chosen plan again: its figures count, and may differ from these. Plans were tried "
    "in the order of their predicted gain for each second of building and measuring. A peer is "
    "another engine beside them, never chosen.",
    "compose",
    "measured",
    figure,
    table,
)
