"""Chooses among the timed variants of one case, and says in a sentence why each was chosen or not."""

from collections.abc import Sequence

from kernels.ops import TORCH_VARIANTS
from kernels.tune.trial import Trial


def choose(trials: Sequence[Trial], noise: float) -> None:
    """Flags the winner and gives every timed trial its reason."""
    passed = [trial for trial in trials if trial.gate == "pass" and trial.ms]
    if not passed:
        return
    default = default_of(passed)
    fastest = min(passed, key=lambda trial: trial.ms or 0.0)
    winner = fastest if fastest is default or _faster(fastest, default, noise) else default
    winner.chosen = True
    winner.reason = _winner_reason(winner, default, len(passed))
    for trial in passed:
        if trial is winner:
            continue
        by, name = (trial.ms or 0.0) / (winner.ms or 1.0) - 1, name_beside(winner, trial)
        if _faster(winner, trial, noise):
            trial.reason = f"{1 + by:.2f}x slower than {name} at this shape."
        else:
            trial.reason = f"The difference to {name} lies inside the noise ({100 * by:+,.1f} %)."


def _faster(one: Trial, other: Trial, noise: float) -> bool:
    """Whether `one` is faster by more than the intervals and the A/A difference explain."""
    if one.ms is None or other.ms is None or one.ms_high is None or other.ms_low is None:
        return False
    return one.ms_high < other.ms_low and one.ms < other.ms * (1 - noise)


def _winner_reason(winner: Trial, default: Trial, count: int) -> str:
    if winner is not default:
        return f"{(default.ms or 0) / (winner.ms or 1):.2f}x faster than {default.variant}, what torch runs by itself."
    if count == 1:
        return "The only variant that passed for this case."
    return "What torch runs by itself; nothing was faster by more than the noise."


def torchs_own(trials: Sequence[Trial]) -> Trial | None:
    """The variant that torch runs by itself; None where it is not among the trials."""
    by_name = {trial.variant: trial for trial in reversed(trials)}
    return next((by_name[name] for name in TORCH_VARIANTS if name in by_name), None)


def default_of(trials: Sequence[Trial]) -> Trial:
    """The variant that torch runs by itself; if it is not among the trials, the first trial."""
    return torchs_own(trials) or trials[0]


def name_beside(one: Trial, other: Trial) -> str:
    """The name of `other` in a sentence about the other."""
    if one.variant != other.variant or one.case != other.case:
        return one.variant
    return "the same with " + ", ".join(f"{name} {value}" for name, value in one.params.items())
