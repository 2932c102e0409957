"""The queryset that confines every read of customer data to the caller's organisation, and the base of its models."""

import uuid
from typing import Any, Self

from django.conf import settings
from django.db import models


class OrganisationQuerySet(models.QuerySet[Any]):
    """For models with an `organisation`. Every read starts with `for_user`, so that another customer's row is a 404."""

    def for_user(self, user: Any) -> Self:
        """Rows of the organisation that `user` acts for; rows of all the user's organisations when none is chosen.

        The middleware sets `user.acting_for`: the session's current organisation, or the token's.
        """
        if not user.is_authenticated:
            return self.none()
        acting_for = getattr(user, "acting_for", None)
        if acting_for is not None:
            return self.filter(organisation=acting_for)
        return self.of_memberships(user)

    def of_memberships(self, user: Any) -> Self:
        """Rows of every organisation that `user` belongs to, whichever the user acts for."""
        return self.filter(organisation__memberships__user=user)


class OrganisationRecord(models.Model):
    """The base of models with an `organisation`: an id that cannot be guessed, and when the row was made."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = OrganisationQuerySet.as_manager()

    class Meta:
        abstract = True


class CreatedRecord(OrganisationRecord):
    """The same with the user who made it, as long as there is such a user."""

    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")

    class Meta:
        abstract = True
