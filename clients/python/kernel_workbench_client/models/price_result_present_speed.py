from typing import Literal

PriceResultPresentSpeed = Literal["latency", "throughput"]

PRICE_RESULT_PRESENT_SPEED_VALUES: set[PriceResultPresentSpeed] = {
    "latency",
    "throughput",
}


def check_price_result_present_speed(value: str) -> PriceResultPresentSpeed:
    if value in PRICE_RESULT_PRESENT_SPEED_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {PRICE_RESULT_PRESENT_SPEED_VALUES!r}")
