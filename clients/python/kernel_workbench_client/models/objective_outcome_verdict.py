from typing import Literal

ObjectiveOutcomeVerdict = Literal["met", "missed", "not_enough_samples", "too_close"]

OBJECTIVE_OUTCOME_VERDICT_VALUES: set[ObjectiveOutcomeVerdict] = {
    "met",
    "missed",
    "not_enough_samples",
    "too_close",
}


def check_objective_outcome_verdict(value: str) -> ObjectiveOutcomeVerdict:
    if value in OBJECTIVE_OUTCOME_VERDICT_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {OBJECTIVE_OUTCOME_VERDICT_VALUES!r}")
