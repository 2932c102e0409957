"""The queryset that confines every read of customer data to the caller's organisation."""

from typing import Any, Self

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
