from typing import Literal

CeilingsBasis = Literal["measured", "modelled", "stated"]

CEILINGS_BASIS_VALUES: set[CeilingsBasis] = {
    "measured",
    "modelled",
    "stated",
}


def check_ceilings_basis(value: str) -> CeilingsBasis:
    if value in CEILINGS_BASIS_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {CEILINGS_BASIS_VALUES!r}")
