from typing import Literal

ConstraintsGpuClassesItem = Literal[
    "a100", "b200", "cpu", "h100", "h100x2", "h100x4", "h200", "h200x2", "h200x4", "l40s"
]

CONSTRAINTS_GPU_CLASSES_ITEM_VALUES: set[ConstraintsGpuClassesItem] = {
    "a100",
    "b200",
    "cpu",
    "h100",
    "h100x2",
    "h100x4",
    "h200",
    "h200x2",
    "h200x4",
    "l40s",
}


def check_constraints_gpu_classes_item(value: str) -> ConstraintsGpuClassesItem:
    if value in CONSTRAINTS_GPU_CLASSES_ITEM_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {CONSTRAINTS_GPU_CLASSES_ITEM_VALUES!r}")
