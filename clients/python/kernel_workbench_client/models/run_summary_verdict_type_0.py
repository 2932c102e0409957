from typing import Literal

RunSummaryVerdictType0 = Literal["met", "missed", "not_enough_samples", "too_close"]

RUN_SUMMARY_VERDICT_TYPE_0_VALUES: set[RunSummaryVerdictType0] = {
    "met",
    "missed",
    "not_enough_samples",
    "too_close",
}


def check_run_summary_verdict_type_0(value: str) -> RunSummaryVerdictType0:
    if value in RUN_SUMMARY_VERDICT_TYPE_0_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {RUN_SUMMARY_VERDICT_TYPE_0_VALUES!r}")
