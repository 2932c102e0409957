"""The dated price books of organisations."""

from django.conf import settings
from django.db import models

from workbench.accounts.querysets import OrganisationQuerySet
from workbench.storage.row_bytes import row_bytes
from workers.documents.prices import PriceBook


class PriceBookRow(models.Model):
    """One version of a price book, an organisation's own or, without one, the default of all. No row changes."""

    organisation = models.ForeignKey(
        "accounts.Organisation", on_delete=models.CASCADE, related_name="price_books", null=True
    )
    document = models.JSONField()
    row_bytes = row_bytes("document")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = OrganisationQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at", "-id")
        indexes = (models.Index(fields=("organisation", "row_bytes"), name="price_book_bytes"),)
        db_table = "reports_pricebookrow"  # the table is older than this application

    def __str__(self) -> str:
        return f"{self.book.name}, {self.book.date}"

    @property
    def book(self) -> PriceBook:
        """The document, validated."""
        return PriceBook.model_validate(self.document)
