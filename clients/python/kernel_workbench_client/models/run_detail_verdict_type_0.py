from typing import Literal

RunDetailVerdictType0 = Literal["met", "missed", "not_enough_samples", "too_close"]

RUN_DETAIL_VERDICT_TYPE_0_VALUES: set[RunDetailVerdictType0] = {
    "met",
    "missed",
    "not_enough_samples",
    "too_close",
}


def check_run_detail_verdict_type_0(value: str) -> RunDetailVerdictType0:
    if value in RUN_DETAIL_VERDICT_TYPE_0_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {RUN_DETAIL_VERDICT_TYPE_0_VALUES!r}")
