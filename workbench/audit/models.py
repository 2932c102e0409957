"""The rows of the audit log."""

from typing import Any, Self

from django.conf import settings
from django.db import models

from workbench.storage.row_bytes import row_bytes

ONLY_ADDED = "Audit entries are only added, never changed or deleted."


class Action(models.TextChoices):
    """What somebody did. The first word names the thing that it was done to."""

    SIGN_IN_SUCCEEDED = "sign_in.succeeded", "Signed in"
    SIGN_IN_FAILED = "sign_in.failed", "Failed to sign in"
    ORGANISATION_CREATED = "organisation.created", "Created the organisation"
    FOUR_EYES_CHANGED = "organisation.four_eyes_changed", "Changed whether two people publish a report"
    MEMBER_INVITED = "member.invited", "Invited a member"
    INVITATION_WITHDRAWN = "invitation.withdrawn", "Withdrew an invitation"
    MEMBER_JOINED = "member.joined", "Joined"
    MEMBER_ROLE_CHANGED = "member.role_changed", "Changed a role"
    MEMBER_REMOVED = "member.removed", "Removed a member"
    PASSWORD_CHANGED = "password.changed", "Changed the password"
    SECOND_FACTOR_ADDED = "second_factor.added", "Added a second factor"
    SECOND_FACTOR_REMOVED = "second_factor.removed", "Removed a second factor"
    TOKEN_ISSUED = "token.issued", "Made an API token"
    TOKEN_REVOKED = "token.revoked", "Revoked an API token"
    PRICES_CHANGED = "prices.changed", "Changed the prices"
    WEBHOOK_ADDED = "webhook.added", "Added a webhook"
    WEBHOOK_REMOVED = "webhook.removed", "Removed a webhook"
    LOGO_CHANGED = "organisation.logo_changed", "Changed the logo on reports"
    LOGO_REMOVED = "organisation.logo_removed", "Removed the logo on reports"
    REPORT_FROZEN = "report.frozen", "Froze a report"
    REPORT_REVIEWED = "report.reviewed", "Reviewed a report"
    REPORT_REOPENED = "report.reopened", "Reopened a report"
    REPORT_PUBLISHED = "report.published", "Published a report"
    REPORT_SHARED = "report.shared", "Shared a report by a link"
    SHARE_REVOKED = "report.share_revoked", "Revoked a link to a report"
    COMMENT_ADDED = "comment.added", "Commented"
    COMMENT_DELETED = "comment.deleted", "Deleted a comment"
    ENDPOINT_NAMED = "workload.endpoint_named", "Named an endpoint in a workload"
    MODEL_DELETED = "model.deleted", "Deleted a model"
    WORKLOAD_DELETED = "workload.deleted", "Deleted a workload"
    RUN_DELETED = "run.deleted", "Deleted a run"
    FILE_DELETED = "file.deleted", "Deleted a file of a run"
    BRING_UP_ADDED = "bring_up.added", "Added a bring-up of a GPU"
    BRING_UP_DELETED = "bring_up.deleted", "Deleted a bring-up of a GPU"


TAKING_AWAY = ("withdrawn", "removed", "revoked", "deleted")
NEVER_REFUSED = {Action.SIGN_IN_SUCCEEDED, Action.SIGN_IN_FAILED, Action.PASSWORD_CHANGED} | {
    action for action in Action if action.endswith(TAKING_AWAY)
}
"""What a person may do however much they did on that day."""


class EntryQuerySet(models.QuerySet["Entry"]):
    def of(self, organisation: Any) -> Self:
        """The entries that an organisation's admins may read."""
        return self.filter(organisation=organisation)

    def update(self, **changes: Any) -> int:
        raise TypeError(ONLY_ADDED)

    def delete(self) -> tuple[int, dict[str, int]]:
        raise TypeError(ONLY_ADDED)


class Entry(models.Model):
    """One thing that somebody did.

    Rows refer to people and organisations without a constraint, so that they outlive them. The database itself refuses
    to change or delete a row (`triggers.py`). `actor_email` is empty for the system; `token` is the prefix of the API
    token that was used, `subject` a name of what it was done to.
    """

    at = models.DateTimeField(auto_now_add=True)
    organisation = models.ForeignKey(
        "accounts.Organisation", on_delete=models.DO_NOTHING, db_constraint=False, null=True, related_name="+"
    )
    action = models.CharField(max_length=40)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.DO_NOTHING, db_constraint=False, null=True, related_name="+"
    )
    actor_email = models.CharField(max_length=254, blank=True)
    token = models.CharField(max_length=12, blank=True)
    address = models.CharField(max_length=45, blank=True)
    request_id = models.CharField(max_length=64, blank=True)
    subject = models.CharField(max_length=200, blank=True)
    subject_id = models.CharField(max_length=64, blank=True)
    details = models.JSONField(default=dict)
    row_bytes = row_bytes("details")

    objects = EntryQuerySet.as_manager()

    class Meta:
        ordering = ("-id",)
        indexes = (
            models.Index(fields=("organisation", "-id"), name="audit_of_organisation"),
            models.Index(fields=("organisation", "row_bytes"), name="audit_bytes"),
        )

    def __str__(self) -> str:
        return f"{self.actor_email or 'the system'}: {self.action} {self.subject}".strip()

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self.pk is not None:
            raise TypeError(ONLY_ADDED)
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        raise TypeError(ONLY_ADDED)

    @property
    def label(self) -> str:
        """What was done, in words; the stored word where this version does not know it."""
        return Action(self.action).label if self.action in Action.values else self.action

    @property
    def shown(self) -> list[tuple[str, str]]:
        """The details that are short enough for a row of a table; the export has all."""
        short = [(name, value) for name, value in self.details.items() if not isinstance(value, dict | list)]
        return [(name, "none" if value is None else str(value)) for name, value in short]

    @property
    def document(self) -> dict[str, Any]:
        """The row as JSON, as the export writes it. Times are ISO 8601 UTC."""
        return {
            "id": self.pk,
            "at": self.at.isoformat(),
            "organisation": str(self.organisation_id) if self.organisation_id else None,
            "action": self.action,
            "actor": self.actor_email or None,
            "token": self.token or None,
            "address": self.address or None,
            "request_id": self.request_id or None,
            "subject": self.subject,
            "subject_id": self.subject_id or None,
            "details": self.details,
        }
