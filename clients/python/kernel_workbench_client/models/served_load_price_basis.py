from typing import Literal

ServedLoadPriceBasis = Literal["measured", "modelled", "stated"]

SERVED_LOAD_PRICE_BASIS_VALUES: set[ServedLoadPriceBasis] = {
    "measured",
    "modelled",
    "stated",
}


def check_served_load_price_basis(value: str) -> ServedLoadPriceBasis:
    if value in SERVED_LOAD_PRICE_BASIS_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {SERVED_LOAD_PRICE_BASIS_VALUES!r}")
