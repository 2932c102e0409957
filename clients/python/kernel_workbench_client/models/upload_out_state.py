from typing import Literal

UploadOutState = Literal["checking", "finished", "receiving", "refused"]

UPLOAD_OUT_STATE_VALUES: set[UploadOutState] = {
    "checking",
    "finished",
    "receiving",
    "refused",
}


def check_upload_out_state(value: str) -> UploadOutState:
    if value in UPLOAD_OUT_STATE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {UPLOAD_OUT_STATE_VALUES!r}")
