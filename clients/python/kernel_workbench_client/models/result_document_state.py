from typing import Literal

ResultDocumentState = Literal["cancelled", "done", "failed", "lost", "queued", "running"]

RESULT_DOCUMENT_STATE_VALUES: set[ResultDocumentState] = {
    "cancelled",
    "done",
    "failed",
    "lost",
    "queued",
    "running",
}


def check_result_document_state(value: str) -> ResultDocumentState:
    if value in RESULT_DOCUMENT_STATE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {RESULT_DOCUMENT_STATE_VALUES!r}")
