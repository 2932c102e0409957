"""The answers that the API keeps for repeated requests."""

from django.db import models

from workbench.storage.row_bytes import row_bytes


class IdempotentRequest(models.Model):
    """A POST sent with an Idempotency-Key, and what was answered; `status` is None while it is in flight.

    `caller` is the token's or the user's id; `digest` the SHA-256 of method, address and body.
    """

    organisation = models.ForeignKey("accounts.Organisation", on_delete=models.CASCADE, related_name="+")
    caller = models.CharField(max_length=80)
    key = models.CharField(max_length=200)
    digest = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(null=True)
    content_type = models.CharField(max_length=120, blank=True)
    body = models.BinaryField(default=bytes)
    row_bytes = row_bytes("body", binary=True)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        indexes = (models.Index(fields=("organisation", "row_bytes"), name="idempotent_bytes"),)
        constraints = (models.UniqueConstraint("caller", "key", name="one_answer_per_idempotency_key"),)

    def __str__(self) -> str:
        return f"{self.key} of {self.caller}"
