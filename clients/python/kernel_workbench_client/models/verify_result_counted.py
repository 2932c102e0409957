from typing import Literal

VerifyResultCounted = Literal["embeddings", "images", "recordings", "sequences", "tokens"]

VERIFY_RESULT_COUNTED_VALUES: set[VerifyResultCounted] = {
    "embeddings",
    "images",
    "recordings",
    "sequences",
    "tokens",
}


def check_verify_result_counted(value: str) -> VerifyResultCounted:
    if value in VERIFY_RESULT_COUNTED_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {VERIFY_RESULT_COUNTED_VALUES!r}")
