from typing import Literal

UnitCostKey = Literal[
    "all-tokens", "conversation-hour", "counted", "energy", "input-tokens", "output-tokens", "thousand-requests"
]

UNIT_COST_KEY_VALUES: set[UnitCostKey] = {
    "all-tokens",
    "conversation-hour",
    "counted",
    "energy",
    "input-tokens",
    "output-tokens",
    "thousand-requests",
}


def check_unit_cost_key(value: str) -> UnitCostKey:
    if value in UNIT_COST_KEY_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {UNIT_COST_KEY_VALUES!r}")
