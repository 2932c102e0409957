"""Webhooks and the log of deliveries in the public API, for admins."""

from datetime import datetime
from typing import Any, Literal, get_args
from uuid import UUID

from django.shortcuts import get_object_or_404
from ninja import Field, Query, Router, Schema, Status

from workbench.accounts.permissions import admin_required
from workbench.api.pagination import Page, PageQuery, page
from workbench.notifications import outbox, services
from workbench.notifications.models import Delivery, Webhook
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


router = Router(tags=["notifications"])


@router.get("/webhooks", response=Page[WebhookOut], summary="List webhooks, newest first")
@admin_required
def list_webhooks(request: Any, query: Query[PageQuery]) -> dict[str, Any]:
    """The organisation's webhooks."""
    return page(Webhook.objects.for_user(request.user), query)


@router.post("/webhooks", response={201: NewWebhook}, summary="Add a webhook")
@admin_required
def create_webhook(request: Any, body: WebhookIn) -> Any:
    """The answer holds the secret that signs its messages (Standard Webhooks), this once."""
    webhook, secret = services.add(request.organisation, request.user, body.url.strip(), body.kinds)
    shown = {name: getattr(webhook, name) for name in ("id", "url", "kinds", "created_at")}
    return Status(201, shown | {"secret": secret})


@router.delete("/webhooks/{uuid:webhook_id}", response={204: None}, summary="Remove a webhook")
@admin_required
def delete_webhook(request: Any, webhook_id: UUID) -> Any:
    """What waits for it is not sent any more; its log goes with it."""
    services.remove(_webhook(request, webhook_id))
    return Status(204, None)


@router.post("/webhooks/{uuid:webhook_id}/test", response={202: None}, summary="Post a test to a webhook")
@admin_required
def test_webhook(request: Any, webhook_id: UUID) -> Any:
    """The log of deliveries shows what came of it within half a minute."""
    outbox.send_test_webhook(_webhook(request, webhook_id))
    return Status(202, None)


@router.get("/deliveries", response=Page[DeliveryOut], summary="List deliveries, newest first")
@admin_required
def list_deliveries(request: Any, query: Query[PageQuery]) -> dict[str, Any]:
    """What was sent to webhooks and by e-mail, with every try."""
    rows = Delivery.objects.for_user(request.user).select_related("notice", "webhook", "membership__user")
    return page(rows, query)


def _webhook(request: Any, webhook_id: UUID) -> Webhook:
    return get_object_or_404(Webhook.objects.for_user(request.user).select_related("organisation"), pk=webhook_id)
