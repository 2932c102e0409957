from typing import Literal

NewUploadHolds = Literal["model", "recording"]

NEW_UPLOAD_HOLDS_VALUES: set[NewUploadHolds] = {
    "model",
    "recording",
}


def check_new_upload_holds(value: str) -> NewUploadHolds:
    if value in NEW_UPLOAD_HOLDS_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {NEW_UPLOAD_HOLDS_VALUES!r}")
