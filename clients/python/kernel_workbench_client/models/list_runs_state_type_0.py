from typing import Literal

ListRunsStateType0 = Literal["cancelled", "done", "failed", "lost", "queued", "running"]

LIST_RUNS_STATE_TYPE_0_VALUES: set[ListRunsStateType0] = {
    "cancelled",
    "done",
    "failed",
    "lost",
    "queued",
    "running",
}


def check_list_runs_state_type_0(value: str) -> ListRunsStateType0:
    if value in LIST_RUNS_STATE_TYPE_0_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {LIST_RUNS_STATE_TYPE_0_VALUES!r}")
