from typing import Literal

LoadResultVerdictType0 = Literal["met", "missed", "not_enough_samples", "too_close"]

LOAD_RESULT_VERDICT_TYPE_0_VALUES: set[LoadResultVerdictType0] = {
    "met",
    "missed",
    "not_enough_samples",
    "too_close",
}


def check_load_result_verdict_type_0(value: str) -> LoadResultVerdictType0:
    if value in LOAD_RESULT_VERDICT_TYPE_0_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {LOAD_RESULT_VERDICT_TYPE_0_VALUES!r}")
