from typing import Literal

LoadOutcomeVerdict = Literal["met", "missed", "not_enough_samples", "too_close"]

LOAD_OUTCOME_VERDICT_VALUES: set[LoadOutcomeVerdict] = {
    "met",
    "missed",
    "not_enough_samples",
    "too_close",
}


def check_load_outcome_verdict(value: str) -> LoadOutcomeVerdict:
    if value in LOAD_OUTCOME_VERDICT_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {LOAD_OUTCOME_VERDICT_VALUES!r}")
