from typing import Literal

ConstraintsPrecisionsItem = Literal["bf16", "fp16", "fp32", "fp8", "int4", "int8", "nvfp4"]

CONSTRAINTS_PRECISIONS_ITEM_VALUES: set[ConstraintsPrecisionsItem] = {
    "bf16",
    "fp16",
    "fp32",
    "fp8",
    "int4",
    "int8",
    "nvfp4",
}


def check_constraints_precisions_item(value: str) -> ConstraintsPrecisionsItem:
    if value in CONSTRAINTS_PRECISIONS_ITEM_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {CONSTRAINTS_PRECISIONS_ITEM_VALUES!r}")
