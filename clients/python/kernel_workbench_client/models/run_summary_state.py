from typing import Literal

RunSummaryState = Literal["cancelled", "done", "failed", "lost", "queued", "running"]

RUN_SUMMARY_STATE_VALUES: set[RunSummaryState] = {
    "cancelled",
    "done",
    "failed",
    "lost",
    "queued",
    "running",
}


def check_run_summary_state(value: str) -> RunSummaryState:
    if value in RUN_SUMMARY_STATE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {RUN_SUMMARY_STATE_VALUES!r}")
