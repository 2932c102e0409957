"""The bring-up documents of organisations."""

from django.db import models

from kernels.bring_up.document import BringUp
from workbench.accounts.querysets import CreatedRecord
from workbench.storage.row_bytes import row_bytes
from workers.wording.text import moment


class BringUpRow(CreatedRecord):
    """What one bring-up found. The columns beside `content` repeat what the list shows; no row ever changes."""

    organisation = models.ForeignKey("accounts.Organisation", on_delete=models.CASCADE, related_name="bring_ups")
    device = models.CharField(max_length=200)
    gpu_class = models.CharField(max_length=80)
    measured_at = models.DateTimeField()
    quick = models.BooleanField()
    passed = models.PositiveIntegerField()
    failed = models.PositiveIntegerField()
    content = models.JSONField()
    row_bytes = row_bytes("content")

    class Meta:
        ordering = ("-created_at",)
        indexes = (models.Index(fields=("organisation", "row_bytes"), name="bring_up_bytes"),)

    def __str__(self) -> str:
        return f"{self.device}, {moment(self.measured_at, 'minute')}"

    @property
    def document(self) -> BringUp:
        """The content, validated."""
        return BringUp.model_validate(self.content)
