from typing import Literal

UnitEconomicsCounted = Literal["embeddings", "images", "recordings", "sequences", "tokens"]

UNIT_ECONOMICS_COUNTED_VALUES: set[UnitEconomicsCounted] = {
    "embeddings",
    "images",
    "recordings",
    "sequences",
    "tokens",
}


def check_unit_economics_counted(value: str) -> UnitEconomicsCounted:
    if value in UNIT_ECONOMICS_COUNTED_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {UNIT_ECONOMICS_COUNTED_VALUES!r}")
