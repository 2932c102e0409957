from typing import Literal

GapKind = Literal["above", "behind", "missing"]

GAP_KIND_VALUES: set[GapKind] = {
    "above",
    "behind",
    "missing",
}


def check_gap_kind(value: str) -> GapKind:
    if value in GAP_KIND_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {GAP_KIND_VALUES!r}")
