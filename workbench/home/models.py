"""What a person keeps of the portfolio."""

from django.conf import settings
from django.db import models


class SavedView(models.Model):
    """Filters and order of the portfolio, by a name of the person's own. `query` is the address's query string."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_views")
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=1000)

    class Meta:
        ordering = ("name",)
        constraints = (models.UniqueConstraint("user", "name", name="one_saved_view_per_name"),)

    def __str__(self) -> str:
        return self.name
