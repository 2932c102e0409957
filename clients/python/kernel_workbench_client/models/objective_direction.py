from typing import Literal

ObjectiveDirection = Literal["", "at_least", "at_most"]

OBJECTIVE_DIRECTION_VALUES: set[ObjectiveDirection] = {
    "",
    "at_least",
    "at_most",
}


def check_objective_direction(value: str) -> ObjectiveDirection:
    if value in OBJECTIVE_DIRECTION_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {OBJECTIVE_DIRECTION_VALUES!r}")
