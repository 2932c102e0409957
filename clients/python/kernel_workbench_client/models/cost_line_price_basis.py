from typing import Literal

CostLinePriceBasis = Literal["measured", "modelled", "stated"]

COST_LINE_PRICE_BASIS_VALUES: set[CostLinePriceBasis] = {
    "measured",
    "modelled",
    "stated",
}


def check_cost_line_price_basis(value: str) -> CostLinePriceBasis:
    if value in COST_LINE_PRICE_BASIS_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {COST_LINE_PRICE_BASIS_VALUES!r}")
