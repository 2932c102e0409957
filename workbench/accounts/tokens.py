"""Issue, find and revoke API tokens. Raises AccountError with one sentence for a token that cannot be made."""

from datetime import datetime, timedelta

from django.core.cache import cache
from django.db import DatabaseError, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from workbench.accounts.models import ApiToken, Membership, Organisation, User
from workbench.accounts.permissions import can_admin
from workbench.accounts.secrets import PREFIX_LENGTH, TOKEN_MARK, keyed_digest, new_secret
from workbench.accounts.services import AccountError
from workbench.audit.models import Action
from workbench.audit.services import record
from workbench.storage import database, disk

MAX_ACTIVE_TOKENS = 100
"""The most tokens of one person in one organisation that are neither revoked nor expired."""
_LAST_USED_STEP = timedelta(minutes=1)


class TokenExpired(Exception):
    """The token was right once. The text says when it ended."""


def issue(
    organisation: Organisation,
    user: User,
    name: str,
    scope: str,
    days: int | None = None,
    issued_by: ApiToken | None = None,
) -> tuple[ApiToken, str]:
    """Makes a token that ends after `days`, or never. Returns it and its secret, which is not stored."""
    living = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    there = ApiToken.objects.filter(living, organisation=organisation, user=user, revoked_at=None)
    if there.count() >= MAX_ACTIVE_TOKENS:
        raise AccountError(f"You have {MAX_ACTIVE_TOKENS} tokens; revoke one that is no longer needed.")
    secret = TOKEN_MARK + new_secret()
    with transaction.atomic():
        token = ApiToken.objects.create(
            organisation=organisation,
            user=user,
            name=name,
            scope=scope,
            prefix=secret[:PREFIX_LENGTH],
            digest=keyed_digest(secret),
            expires_at=None if days is None else timezone.now() + timedelta(days=days),
            issued_by=issued_by,
        )
        record(Action.TOKEN_ISSUED, organisation, token, actor=user, scope=scope, days=days)
    return token, secret


def issue_by_token(by: ApiToken, name: str, scope: str, days: int | None) -> tuple[ApiToken, str]:
    """Makes a token at the request of another one, which it must not outlive: it ends when that one is revoked."""
    if by.expires_at and (days is None or timezone.now() + timedelta(days=days) > by.expires_at):
        raise AccountError(f"days: a token that ends on {by.expires_at:%Y-%m-%d} makes none that ends later", "days")
    with transaction.atomic():
        if ApiToken.objects.select_for_update().get(pk=by.pk).revoked_at:
            raise AccountError("This token has been revoked.")
        return issue(by.organisation, by.user, name, scope, days, by)


def find(secret: str) -> ApiToken | None:
    """The unrevoked token with this secret, if its owner is an active member. Records the use to the minute.

    Raises TokenExpired when its time is over.
    """
    token = (
        ApiToken.objects.select_related("user", "organisation")
        .filter(digest=keyed_digest(secret), revoked_at=None, user__is_active=True)
        .filter(organisation__memberships__user=F("user"))
        .first()
    )
    if token is not None and token.expired:
        raise TokenExpired(f"This token expired on {token.expires_at:%Y-%m-%d}; make a new one on the page Tokens.")
    if token is not None:
        _record_use(token, timezone.now())
    return token


def _record_use(token: ApiToken, now: datetime) -> None:
    """At most one write a minute, and none on a full disk or in a locked database: one request alone waits for it."""
    if token.last_used_at is not None and token.last_used_at > now - _LAST_USED_STEP:
        return
    if not cache.add(f"token-used:{token.pk}", 1, _LAST_USED_STEP.total_seconds()):
        return
    try:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    except DatabaseError as error:
        if not (disk.is_full(error) or database.is_unavailable(error)):
            raise


def visible(user: User, membership: Membership) -> QuerySet[ApiToken]:
    """The member's own tokens; for an admin all tokens of the organisation."""
    tokens: QuerySet[ApiToken] = ApiToken.objects.for_user(user).select_related("user")
    return tokens if can_admin(membership) else tokens.filter(user=user)


def revoke(token: ApiToken) -> None:
    """Ends the token at once, with those that it issued; revoking twice keeps the first time."""
    with transaction.atomic():
        if ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now()):
            record(Action.TOKEN_REVOKED, token.organisation, token)
        for issued in token.issued.select_related("organisation"):
            revoke(issued)


def revoke_all(user: User) -> None:
    """Ends every token of `user`, in all organisations."""
    for token in ApiToken.objects.filter(user=user, revoked_at=None).select_related("organisation"):
        revoke(token)
