from typing import Literal

PricePointBasis = Literal["measured", "modelled", "stated"]

PRICE_POINT_BASIS_VALUES: set[PricePointBasis] = {
    "measured",
    "modelled",
    "stated",
}


def check_price_point_basis(value: str) -> PricePointBasis:
    if value in PRICE_POINT_BASIS_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {PRICE_POINT_BASIS_VALUES!r}")
