from typing import Literal

ConstraintsPrefer = Literal["cheapest", "fastest"]

CONSTRAINTS_PREFER_VALUES: set[ConstraintsPrefer] = {
    "cheapest",
    "fastest",
}


def check_constraints_prefer(value: str) -> ConstraintsPrefer:
    if value in CONSTRAINTS_PREFER_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {CONSTRAINTS_PREFER_VALUES!r}")
