from typing import Literal

CostLineSpeedBasis = Literal["measured", "modelled", "stated"]

COST_LINE_SPEED_BASIS_VALUES: set[CostLineSpeedBasis] = {
    "measured",
    "modelled",
    "stated",
}


def check_cost_line_speed_basis(value: str) -> CostLineSpeedBasis:
    if value in COST_LINE_SPEED_BASIS_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {COST_LINE_SPEED_BASIS_VALUES!r}")
