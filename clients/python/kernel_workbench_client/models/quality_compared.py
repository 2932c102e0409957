from typing import Literal

QualityCompared = Literal["answers", "tokens", "vectors"]

QUALITY_COMPARED_VALUES: set[QualityCompared] = {
    "answers",
    "tokens",
    "vectors",
}


def check_quality_compared(value: str) -> QualityCompared:
    if value in QUALITY_COMPARED_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {QUALITY_COMPARED_VALUES!r}")
