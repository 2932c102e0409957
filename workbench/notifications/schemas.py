"""The API's schemas of webhooks and deliveries."""

from datetime import datetime
from typing import Literal, get_args
from uuid import UUID

from ninja import Field, Schema

from workbench.notifications.models import Delivery
from workers.documents.base import Document

PostedKind = Literal["run.finished", "run.missed", "report.ready_for_review", "report.published"]
"""The kinds of POSTED: nobody asks for tests in general."""


class WebhookIn(Document):
    """A webhook to add."""

    url: str = Field(max_length=500, description="an https address of the public internet")
    kinds: list[PostedKind] = Field(list(get_args(PostedKind)), min_length=1)


class WebhookOut(Schema):
    """A webhook without its secret."""

    id: UUID
    url: str
    kinds: list[str]
    created_at: datetime


class NewWebhook(WebhookOut):
    """A webhook with its secret, which is not shown again."""

    secret: str


class TryOut(Schema):
    """One try: when it ended, what came of it in words, and how long it took."""

    at: datetime
    words: str
    seconds: float


class DeliveryOut(Schema):
    """A message on its way to one place. `next_at` is None once it is over."""

    id: UUID
    message_id: str
    kind: str
    to: str
    state: str
    tries: list[TryOut]
    next_at: datetime | None
    created_at: datetime

    @staticmethod
    def resolve_message_id(delivery: Delivery) -> str:
        return delivery.notice.message_id

    @staticmethod
    def resolve_kind(delivery: Delivery) -> str:
        return delivery.notice.kind

    @staticmethod
    def resolve_next_at(delivery: Delivery) -> datetime | None:
        return delivery.next_at if delivery.state == Delivery.State.WAITING else None
