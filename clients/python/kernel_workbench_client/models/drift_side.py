from typing import Literal

DriftSide = Literal["after", "before"]

DRIFT_SIDE_VALUES: set[DriftSide] = {
    "after",
    "before",
}


def check_drift_side(value: str) -> DriftSide:
    if value in DRIFT_SIDE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {DRIFT_SIDE_VALUES!r}")
