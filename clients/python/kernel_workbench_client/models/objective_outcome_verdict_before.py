from typing import Literal

ObjectiveOutcomeVerdictBefore = Literal["met", "missed", "not_enough_samples", "too_close"]

OBJECTIVE_OUTCOME_VERDICT_BEFORE_VALUES: set[ObjectiveOutcomeVerdictBefore] = {
    "met",
    "missed",
    "not_enough_samples",
    "too_close",
}


def check_objective_outcome_verdict_before(value: str) -> ObjectiveOutcomeVerdictBefore:
    if value in OBJECTIVE_OUTCOME_VERDICT_BEFORE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {OBJECTIVE_OUTCOME_VERDICT_BEFORE_VALUES!r}")
