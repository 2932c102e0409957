"""Who wants to be told, the notices that were written, and their deliveries."""

import json
import uuid
from typing import Any, Self

from django.db import models
from django.utils import timezone

from workbench.accounts.querysets import CreatedRecord, OrganisationQuerySet, OrganisationRecord
from workbench.storage.row_bytes import row_bytes


class Kind(models.TextChoices):
    """What a notice is about: the `type` of a webhook's message."""

    RUN_FINISHED = "run.finished", "A run has ended"
    RUN_MISSED = "run.missed", "A run has missed an objective"
    REPORT_READY = "report.ready_for_review", "A report waits for its review"
    REPORT_PUBLISHED = "report.published", "A report has been published"
    MENTIONED = "comment.mentioned", "Somebody mentions me in a comment"
    TEST = "test", "A test"


CHOOSABLE = [choice for choice in Kind.choices if choice[0] != Kind.TEST]
"""Kinds that a member asks for. A test is sent to the member who asked for it."""
POSTED = [choice for choice in CHOOSABLE if choice[0] != Kind.MENTIONED]
"""Kinds that a webhook asks for: a mention concerns one member."""


class Webhook(CreatedRecord):
    """An address of the organisation that notices are posted to. `secret` is encrypted; it signs each message."""

    organisation = models.ForeignKey("accounts.Organisation", on_delete=models.CASCADE, related_name="webhooks")
    url = models.CharField(max_length=500)
    kinds = models.JSONField(default=list)
    secret = models.TextField()

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return self.url


class Subscription(models.Model):
    """The kinds that a member gets by e-mail about one organisation; it ends with the membership."""

    membership = models.OneToOneField("accounts.Membership", on_delete=models.CASCADE, related_name="subscription")
    kinds = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"e-mail to {self.membership.user}"


class NoticeQuerySet(OrganisationQuerySet):
    def inbox(self, membership: Any) -> Self:
        """What concerns a member, once: of a run that missed its promise its end tells already."""
        mine = models.Q(member=membership) | models.Q(member=None)
        return self.filter(mine, organisation=membership.organisation_id).exclude(kind__in=(Kind.RUN_MISSED, Kind.TEST))


class Notice(models.Model):
    """One thing that happened, written in the transaction in which it happened. Rows never change.

    `member` is whom it concerns; without one it concerns every member.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey("accounts.Organisation", on_delete=models.CASCADE, related_name="notices")
    kind = models.CharField(max_length=40, choices=Kind.choices)
    data = models.JSONField(default=dict)
    member = models.ForeignKey("accounts.Membership", on_delete=models.CASCADE, null=True, related_name="+")
    row_bytes = row_bytes("data")
    created_at = models.DateTimeField(default=timezone.now, db_index=True)

    objects = NoticeQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at",)
        indexes = (
            models.Index(fields=("organisation", "row_bytes"), name="notice_bytes"),
            models.Index(fields=("organisation", "-created_at"), name="notice_of_organisation"),
        )

    def __str__(self) -> str:
        return self.get_kind_display()

    @property
    def message_id(self) -> str:
        """The same for every delivery and every try, so that a receiver knows a message that comes twice."""
        return f"msg_{self.id.hex}"

    @property
    def body(self) -> bytes:
        """The message as JSON, the same bytes for every try. `timestamp` is ISO 8601 UTC."""
        message = {"type": self.kind, "timestamp": self.created_at.isoformat(), "data": self.data}
        return json.dumps(message, sort_keys=True, ensure_ascii=False).encode()


class Delivery(OrganisationRecord):
    """A notice on its way to one webhook or one member. `tries` has what came of each try, oldest first.

    While it waits, `next_at` is when it is tried next; a try that has begun moves it on by the time that a try may
    take, so that a delivery whose process died is tried again.
    """

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting"
        DELIVERED = "delivered", "Delivered"
        GIVEN_UP = "given_up", "Given up"

    organisation = models.ForeignKey("accounts.Organisation", on_delete=models.CASCADE, related_name="+")
    notice = models.ForeignKey(Notice, on_delete=models.CASCADE, related_name="deliveries")
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, null=True, related_name="deliveries")
    membership = models.ForeignKey("accounts.Membership", on_delete=models.CASCADE, null=True, related_name="+")
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    next_at = models.DateTimeField(default=timezone.now)
    tries = models.JSONField(default=list)
    row_bytes = row_bytes("tries")

    class Meta:
        ordering = ("-created_at",)
        indexes = (
            models.Index(fields=("state", "next_at"), name="delivery_due"),
            models.Index(fields=("organisation", "-created_at"), name="delivery_of_organisation"),
            models.Index(fields=("organisation", "row_bytes"), name="delivery_bytes"),
        )
        constraints = (
            models.CheckConstraint(
                condition=models.Q(webhook=None, membership__isnull=False)
                | models.Q(webhook__isnull=False, membership=None),
                name="delivery_to_one_place",
            ),
        )

    def __str__(self) -> str:
        return f"{self.notice} to {self.to}"

    @property
    def to(self) -> str:
        """The webhook's address, or the member's e-mail address."""
        return self.webhook.url if self.webhook else self.membership.user.email if self.membership else ""

    @property
    def last(self) -> dict[str, Any]:
        """What came of the last try; empty before the first."""
        return self.tries[-1] if self.tries else {}
