from typing import Literal

PriceResultRatioBasis = Literal["measured", "modelled", "stated"]

PRICE_RESULT_RATIO_BASIS_VALUES: set[PriceResultRatioBasis] = {
    "measured",
    "modelled",
    "stated",
}


def check_price_result_ratio_basis(value: str) -> PriceResultRatioBasis:
    if value in PRICE_RESULT_RATIO_BASIS_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {PRICE_RESULT_RATIO_BASIS_VALUES!r}")
