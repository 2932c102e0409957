from typing import Literal

RunDetailState = Literal["cancelled", "done", "failed", "lost", "queued", "running"]

RUN_DETAIL_STATE_VALUES: set[RunDetailState] = {
    "cancelled",
    "done",
    "failed",
    "lost",
    "queued",
    "running",
}


def check_run_detail_state(value: str) -> RunDetailState:
    if value in RUN_DETAIL_STATE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {RUN_DETAIL_STATE_VALUES!r}")
