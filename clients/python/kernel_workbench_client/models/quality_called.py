from typing import Literal

QualityCalled = Literal["numerical fidelity", "quality"]

QUALITY_CALLED_VALUES: set[QualityCalled] = {
    "numerical fidelity",
    "quality",
}


def check_quality_called(value: str) -> QualityCalled:
    if value in QUALITY_CALLED_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {QUALITY_CALLED_VALUES!r}")
