from typing import Literal

ResultDocumentVerdictType0 = Literal["met", "missed", "not_enough_samples", "too_close"]

RESULT_DOCUMENT_VERDICT_TYPE_0_VALUES: set[ResultDocumentVerdictType0] = {
    "met",
    "missed",
    "not_enough_samples",
    "too_close",
}


def check_result_document_verdict_type_0(value: str) -> ResultDocumentVerdictType0:
    if value in RESULT_DOCUMENT_VERDICT_TYPE_0_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {RESULT_DOCUMENT_VERDICT_TYPE_0_VALUES!r}")
