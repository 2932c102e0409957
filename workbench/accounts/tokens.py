"""Issue, find and revoke API tokens."""

from datetime import timedelta

from django.db import DatabaseError
from django.db.models import F, Q
from django.utils import timezone

from workbench import disk
from workbench.accounts.models import ApiToken, Organisation, User
from workbench.accounts.secrets import PREFIX_LENGTH, keyed_digest, new_token

_LAST_USED_STEP = timedelta(minutes=1)


def issue(organisation: Organisation, user: User, name: str, scope: str) -> tuple[ApiToken, str]:
    """Makes a token. Returns it and its secret, which is not stored."""
    secret = new_token()
    token = ApiToken.objects.create(
        organisation=organisation,
        user=user,
        name=name,
        scope=scope,
        prefix=secret[:PREFIX_LENGTH],
        digest=keyed_digest(secret),
    )
    return token, secret


def find(secret: str) -> ApiToken | None:
    """The unrevoked token with this secret, if its owner is an active member. Records the use to the minute."""
    token = (
        ApiToken.objects.select_related("user", "organisation")
        .filter(digest=keyed_digest(secret), revoked_at=None, user__is_active=True)
        .filter(organisation__memberships__user=F("user"))
        .first()
    )
    if token is not None:
        now = timezone.now()
        stale = Q(last_used_at=None) | Q(last_used_at__lt=now - _LAST_USED_STEP)
        try:
            ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)
        except DatabaseError as error:
            if not disk.is_full(error):
                raise
    return token


def revoke(token: ApiToken) -> None:
    """Ends the token at once; revoking twice keeps the first time."""
    ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now())
