from typing import Literal

DistributionBasis = Literal["measured", "modelled", "stated"]

DISTRIBUTION_BASIS_VALUES: set[DistributionBasis] = {
    "measured",
    "modelled",
    "stated",
}


def check_distribution_basis(value: str) -> DistributionBasis:
    if value in DISTRIBUTION_BASIS_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {DISTRIBUTION_BASIS_VALUES!r}")
