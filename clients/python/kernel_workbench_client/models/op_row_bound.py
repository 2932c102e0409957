from typing import Literal

OpRowBound = Literal["compute", "idle", "launch", "memory"]

OP_ROW_BOUND_VALUES: set[OpRowBound] = {
    "compute",
    "idle",
    "launch",
    "memory",
}


def check_op_row_bound(value: str) -> OpRowBound:
    if value in OP_ROW_BOUND_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {OP_ROW_BOUND_VALUES!r}")
