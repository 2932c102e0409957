"""How customer data is reached."""

from typing import Any, Self

from django.db import models


class OrganisationQuerySet(models.QuerySet[Any]):
    """For models with an `organisation`: start every read with `for_user`, so that a foreign object is a 404."""

    def for_user(self, user: Any) -> Self:
        """Rows of the organisation that `user` acts for now; without one chosen, of every organisation of theirs.

        The middleware chooses it (`user.acting_for`): a session's current organisation, or the token's own.
        """
        if not user.is_authenticated:
            return self.none()
        acting_for = getattr(user, "acting_for", None)
        if acting_for is not None:
            return self.filter(organisation=acting_for)
        return self.filter(organisation__memberships__user=user)
