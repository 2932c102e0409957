from typing import Literal

PredictionBasis = Literal["measured", "modelled", "stated"]

PREDICTION_BASIS_VALUES: set[PredictionBasis] = {
    "measured",
    "modelled",
    "stated",
}


def check_prediction_basis(value: str) -> PredictionBasis:
    if value in PREDICTION_BASIS_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {PREDICTION_BASIS_VALUES!r}")
