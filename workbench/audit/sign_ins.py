"""Enters logins and failed ones into the audit log of each organisation that the person belongs to."""

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.signals import user_logged_in, user_login_failed

from workbench.audit.models import Action
from workbench.audit.services import record


def connect() -> None:
    """Listens to Django's signals."""
    user_logged_in.connect(_signed_in, dispatch_uid="audit")
    user_login_failed.connect(_failed, dispatch_uid="audit")


def _signed_in(sender: Any, user: Any, **others: Any) -> None:
    for membership in user.memberships.select_related("organisation"):
        record(Action.SIGN_IN_SUCCEEDED, membership.organisation, actor=user)


def _failed(sender: Any, credentials: dict[str, Any], **others: Any) -> None:
    """A name without a login is not kept, since people type passwords into the wrong field."""
    users = get_user_model()
    user: Any = users.objects.filter(email=str(credentials.get("username", "")).strip().lower()).first()
    if user is None:
        record(Action.SIGN_IN_FAILED, None, "an unknown email address")
        return
    for membership in user.memberships.select_related("organisation"):
        record(Action.SIGN_IN_FAILED, membership.organisation, user.email)
