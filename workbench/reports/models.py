"""Frozen reports."""

import uuid

from django.conf import settings
from django.db import models

from workbench.accounts.querysets import OrganisationQuerySet
from workbench.reports.documents import Snapshot


class Report(models.Model):
    """A run's results as they were when the report was made; `snapshot` never changes afterwards.

    draft -- review --> reviewed -- publish --> published, and reviewed -- reopen --> draft. `services.py` alone
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
