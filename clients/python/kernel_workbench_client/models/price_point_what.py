from typing import Literal

PricePointWhat = Literal["duty cycle", "lengths", "load", "price"]

PRICE_POINT_WHAT_VALUES: set[PricePointWhat] = {
    "duty cycle",
    "lengths",
    "load",
    "price",
}


def check_price_point_what(value: str) -> PricePointWhat:
    if value in PRICE_POINT_WHAT_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {PRICE_POINT_WHAT_VALUES!r}")
