"""Ranks candidates and plans. One is better than another if it is so by intervals that do not overlap."""

import json
from collections.abc import Sequence

from kernels import registry
from kernels.ops import TORCH_VARIANTS
from kernels.plan import Plan, PlannedOp
from workers.documents.measurement import Candidate
from workers.documents.stages import PlanTrial
from workers.planning.precision import weights_of
from workers.wording.text import number

NOISE = 0.03
"""A plan that is faster by a smaller share is not worth another trial."""
APPLIED = ("linear", "attention", "fft_conv")
"""Ops whose variants `kernels.runners.apply` puts into a model."""


def winners(candidates: list[Candidate], lossy: bool) -> list[Candidate]:
    """The fastest variant of each case, where it is faster than torch's own by more than the noise.

    Other cases are left out, since a plan names only what differs from torch. Lossy variants count if `lossy` is True.
    """
    groups: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        if candidate.op in APPLIED and candidate.gate == "pass" and candidate.ms is not None:
            groups.setdefault(json.dumps({**candidate.case, "weights": ""}, sort_keys=True), []).append(candidate)
    fastest = []
    for group in groups.values():
        default = next((candidate for name in TORCH_VARIANTS for candidate in group if candidate.variant == name), None)
        alternatives = [
            candidate for candidate in group if candidate is not default and (lossy or not is_lossy(candidate))
        ]
        if default is None or default.chosen or not alternatives:
            continue
        best = min(alternatives, key=lambda candidate: candidate.ms or 0.0)
        if (best.ms_high or 0.0) < (default.ms_low or 0.0):
            fastest.append(best)
    return fastest


def is_lossy(candidate: Candidate) -> bool:
    return registry.variant(candidate.variant).lossy


def planned_op(candidate: Candidate) -> PlannedOp:
    return PlannedOp(
        op=candidate.op,
        case=candidate.case,
        variant=candidate.variant,
        params=candidate.params,
        evidence_id=candidate.id,
    )


def fastest(trials: Sequence[PlanTrial], lower_is_better: bool) -> PlanTrial | None:
    """The best trial that passed; the earlier one of two whose intervals overlap. None if none passed."""
    best: PlanTrial | None = None
    for trial in trials:
        if trial.gate == "pass" and trial.primary and (best is None or better(trial, best, lower_is_better)):
            best = trial
    return best


def hopeful(trials: Sequence[PlanTrial], lower_is_better: bool) -> PlanTrial | None:
    """The best trial, or where that is the first, today's, the one with the best median if that is better by NOISE: few
    slow requests have wide intervals, and verify's pairs tell more.
    """
    best = fastest(trials, lower_is_better)
    if best is None or best is not trials[0]:
        return best
    passed = [trial for trial in trials if trial.gate == "pass" and trial.primary]
    other = max(passed, key=lambda trial: _times(trial, best, lower_is_better))
    return other if _times(other, best, lower_is_better) > 1 + NOISE else best


def better(trial: PlanTrial, other: PlanTrial, lower_is_better: bool) -> bool:
    if trial.primary is None or other.primary is None:
        return False
    return trial.primary.high < other.primary.low if lower_is_better else trial.primary.low > other.primary.high


def explain(trials: list[PlanTrial], lower_is_better: bool, winner: PlanTrial) -> None:
    """Marks the winner among the trials, and writes into each measured one why it was chosen or not.

    A trial in lower precision keeps its sentence about fidelity, which then follows.
    """
    winner.chosen = True
    first = next(trial for trial in trials if trial.gate == "pass" and trial.primary)
    for trial in trials:
        if trial.gate != "pass" or trial.primary is None:
            continue
        if trial is not winner:
            why = _compared(trial, winner, lower_is_better)
        elif any(better(other, trial, lower_is_better) for other in trials if other.gate == "pass"):
            why = "The plan that the workload prefers of those that keep every promise."
        elif trial is first:
            why = "The baseline; nothing was faster by more than the noise."
        elif _precisions(trial) != _precisions(first):
            why = f"The best of all, in another precision than {first.label}: verify judges its quality."
        else:
            why = f"The best of all: {number(_times(trial, first, lower_is_better))}x faster than {first.label}."
            if not better(trial, first, lower_is_better):
                why += " With so few requests that lies inside the noise: verify decides."
        trial.reason = f"{why} {trial.reason}".strip()


def _compared(trial: PlanTrial, winner: PlanTrial, lower_is_better: bool) -> str:
    if better(trial, winner, lower_is_better):
        return f"Faster, but of the plans that keep every promise the workload prefers {winner.label}."
    if better(winner, trial, lower_is_better) and _precisions(winner) != _precisions(trial):
        return f"Slower than {winner.label}, which is in another precision."
    if better(winner, trial, lower_is_better):
        return f"{number(_times(winner, trial, lower_is_better))}x slower than {winner.label}."
    return f"The difference to {winner.label} lies inside the noise."


def _precisions(trial: PlanTrial) -> set[str]:
    """The precisions of its activations and weights. Times in different ones are not compared by a ratio."""
    if not trial.plan:
        return set()
    plan = Plan.model_validate(trial.plan)
    return {plan.dtype, *weights_of(plan)}


def _times(first: PlanTrial, other: PlanTrial, lower_is_better: bool) -> float:
    """How many times better `first` is than `other`."""
    a, b = (trial.primary.value if trial.primary else 0.0 for trial in (first, other))
    return b / max(a, 1e-12) if lower_is_better else a / max(b, 1e-12)
