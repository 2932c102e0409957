from typing import Literal

VerifyResultVerdict = Literal["met", "missed", "not_enough_samples", "too_close"]

VERIFY_RESULT_VERDICT_VALUES: set[VerifyResultVerdict] = {
    "met",
    "missed",
    "not_enough_samples",
    "too_close",
}


def check_verify_result_verdict(value: str) -> VerifyResultVerdict:
    if value in VERIFY_RESULT_VERDICT_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {VERIFY_RESULT_VERDICT_VALUES!r}")
