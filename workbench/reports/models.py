"""Frozen reports, and the links by which they are shared."""

from django.conf import settings
from django.db import models
from django.utils import timezone

from workbench.accounts.querysets import CreatedRecord
from workbench.reports.documents import Snapshot
from workbench.storage.row_bytes import row_bytes


class Report(CreatedRecord):
    """A run's results as they were when the report was made; `snapshot` never changes afterwards.

    draft -- review --> reviewed -- publish --> published, and reviewed -- reopen --> draft. `services.py` alone
    changes the state. `customer` is whom it is for; "" is the organisation.
    """

    class State(models.TextChoices):
        DRAFT = "draft", "Draft"
        REVIEWED = "reviewed", "Reviewed"
        PUBLISHED = "published", "Published"

    organisation = models.ForeignKey("accounts.Organisation", on_delete=models.CASCADE, related_name="reports")
    run = models.ForeignKey("runs.Run", on_delete=models.CASCADE, related_name="reports")
    title = models.CharField(max_length=160)
    verdict = models.CharField(max_length=20)
    state = models.CharField(max_length=10, choices=State.choices, default=State.DRAFT)
    snapshot = models.JSONField()
    customer = models.CharField(max_length=120, blank=True)
    note = models.TextField(blank=True)
    row_bytes = row_bytes("snapshot", "note")
    reviewed_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    reviewed_at = models.DateTimeField(null=True)
    published_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    published_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-created_at",)
        indexes = (models.Index(fields=("organisation", "row_bytes"), name="report_bytes"),)

    def __str__(self) -> str:
        return self.title

    @property
    def document(self) -> Snapshot:
        """The snapshot, validated."""
        return Snapshot.model_validate(self.snapshot)


class Logo(models.Model):
    """An organisation's logo as a data URI of a PNG. A report keeps the one that there was when it was frozen."""

    organisation = models.OneToOneField("accounts.Organisation", on_delete=models.CASCADE, related_name="logo")
    image = models.TextField()

    def __str__(self) -> str:
        return f"logo of {self.organisation}"


class Share(CreatedRecord):
    """A link by which anybody who has it reads a published report, until it ends or is revoked.

    Only the keyed hash of its secret is kept, and a hash of its password, which may be empty. `views` counts how often
    the report was opened.
    """

    organisation = models.ForeignKey("accounts.Organisation", on_delete=models.CASCADE, related_name="+")
    report = models.ForeignKey(Report, on_delete=models.CASCADE, related_name="shares")
    digest = models.CharField(max_length=64, unique=True)
    password = models.CharField(max_length=128, blank=True)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    views = models.PositiveIntegerField(default=0)
    viewed_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return f"link to {self.report.title}"

    @property
    def works(self) -> bool:
        """Whether it opens the report now."""
        return self.revoked_at is None and self.expires_at > timezone.now()
