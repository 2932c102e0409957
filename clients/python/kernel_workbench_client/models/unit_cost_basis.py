from typing import Literal

UnitCostBasis = Literal["measured", "modelled", "stated"]

UNIT_COST_BASIS_VALUES: set[UnitCostBasis] = {
    "measured",
    "modelled",
    "stated",
}


def check_unit_cost_basis(value: str) -> UnitCostBasis:
    if value in UNIT_COST_BASIS_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {UNIT_COST_BASIS_VALUES!r}")
