from typing import Literal

AdmitResultKind = Literal["decoder", "encoder", "other"]

ADMIT_RESULT_KIND_VALUES: set[AdmitResultKind] = {
    "decoder",
    "encoder",
    "other",
}


def check_admit_result_kind(value: str) -> AdmitResultKind:
    if value in ADMIT_RESULT_KIND_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {ADMIT_RESULT_KIND_VALUES!r}")
