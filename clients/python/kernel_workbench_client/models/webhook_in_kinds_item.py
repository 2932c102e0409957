from typing import Literal

WebhookInKindsItem = Literal["report.published", "report.ready_for_review", "run.finished", "run.missed"]

WEBHOOK_IN_KINDS_ITEM_VALUES: set[WebhookInKindsItem] = {
    "report.published",
    "report.ready_for_review",
    "run.finished",
    "run.missed",
}


def check_webhook_in_kinds_item(value: str) -> WebhookInKindsItem:
    if value in WEBHOOK_IN_KINDS_ITEM_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {WEBHOOK_IN_KINDS_ITEM_VALUES!r}")
