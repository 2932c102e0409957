from typing import Literal

Kind = Literal["report.published", "report.ready_for_review", "run.finished", "run.missed", "test"]

KIND_VALUES: set[Kind] = {
    "report.published",
    "report.ready_for_review",
    "run.finished",
    "run.missed",
    "test",
}


def check_kind(value: str) -> Kind:
    if value in KIND_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {KIND_VALUES!r}")
