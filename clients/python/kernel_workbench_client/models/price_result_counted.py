from typing import Literal

PriceResultCounted = Literal["embeddings", "images", "recordings", "sequences", "tokens"]

PRICE_RESULT_COUNTED_VALUES: set[PriceResultCounted] = {
    "embeddings",
    "images",
    "recordings",
    "sequences",
    "tokens",
}


def check_price_result_counted(value: str) -> PriceResultCounted:
    if value in PRICE_RESULT_COUNTED_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {PRICE_RESULT_COUNTED_VALUES!r}")
