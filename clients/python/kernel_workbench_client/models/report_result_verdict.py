from typing import Literal

ReportResultVerdict = Literal["met", "missed", "not_enough_samples", "too_close"]

REPORT_RESULT_VERDICT_VALUES: set[ReportResultVerdict] = {
    "met",
    "missed",
    "not_enough_samples",
    "too_close",
}


def check_report_result_verdict(value: str) -> ReportResultVerdict:
    if value in REPORT_RESULT_VERDICT_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {REPORT_RESULT_VERDICT_VALUES!r}")
