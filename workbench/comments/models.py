"""What members write to each other about a run or a report."""

from django.conf import settings
from django.db import models

from workbench.accounts.querysets import OrganisationRecord
from workbench.storage.row_bytes import row_bytes


class Comment(OrganisationRecord):
    """A member's words about one run or one report. Readers of a report without a login see none."""

    organisation = models.ForeignKey("accounts.Organisation", on_delete=models.CASCADE, related_name="comments")
    run = models.ForeignKey("runs.Run", on_delete=models.CASCADE, null=True, related_name="comments")
    report = models.ForeignKey("reports.Report", on_delete=models.CASCADE, null=True, related_name="comments")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    text = models.TextField()
    row_bytes = row_bytes("text")

    class Meta:
        ordering = ("created_at",)
        indexes = (models.Index(fields=("organisation", "row_bytes"), name="comment_bytes"),)
        constraints = (
            models.CheckConstraint(
                condition=models.Q(run=None, report__isnull=False) | models.Q(run__isnull=False, report=None),
                name="comment_on_one_thing",
            ),
        )

    def __str__(self) -> str:
        return self.text[:80]
