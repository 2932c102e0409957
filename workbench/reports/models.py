"""Frozen reports, and the dated price books behind them."""

import uuid

from django.conf import settings
from django.db import models

from workbench.accounts.querysets import OrganisationQuerySet
from workbench.reports.documents import Snapshot
from workers.documents.prices import PriceBook


class Report(models.Model):
    """A run's results as they were when the report was made; `snapshot` never changes afterwards.

    draft -- review --> reviewed -- publish --> published, and reviewed -- reopen --> draft. `publishing.py` alone
    changes the state.
    """

    class State(models.TextChoices):
        DRAFT = "draft", "Draft"
        REVIEWED = "reviewed", "Reviewed"
        PUBLISHED = "published", "Published"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey("accounts.Organisation", on_delete=models.CASCADE, related_name="reports")
    run = models.ForeignKey("runs.Run", on_delete=models.CASCADE, related_name="reports")
    title = models.CharField(max_length=160)
    verdict = models.CharField(max_length=20)
    state = models.CharField(max_length=10, choices=State.choices, default=State.DRAFT)
    snapshot = models.JSONField()
    note = models.TextField(blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    reviewed_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    reviewed_at = models.DateTimeField(null=True)
    published_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    published_at = models.DateTimeField(null=True)

    objects = OrganisationQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return self.title

    @property
    def document(self) -> Snapshot:
        """The snapshot, validated."""
        return Snapshot.model_validate(self.snapshot)


class PriceBookRow(models.Model):
    """One version of a price book, an organisation's own or, without one, the default of all. Rows are only added."""

    organisation = models.ForeignKey(
        "accounts.Organisation", on_delete=models.CASCADE, related_name="price_books", null=True
    )
    document = models.JSONField()
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = OrganisationQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at", "-id")

    def __str__(self) -> str:
        return f"{self.book.name}, {self.book.date}"

    @property
    def book(self) -> PriceBook:
        """The document, validated."""
        return PriceBook.model_validate(self.document)
