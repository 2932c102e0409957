"""Enters logins, failed ones and changes of second factors into the audit log of the person's organisations."""

from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.signals import user_logged_in, user_login_failed
from django.db.models.signals import post_delete, post_save

from workbench.audit.models import Action
from workbench.audit.services import record


def connect() -> None:
    """Listens to the signals of Django, and to those of django-allauth except on the workers' site."""
    user_logged_in.connect(_signed_in, dispatch_uid="audit")
    user_login_failed.connect(_failed, dispatch_uid="audit")
    if not apps.is_installed("allauth.mfa"):
        return
    from allauth.mfa import signals as second_factors

    second_factors.authentication_failed.connect(_wrong_code, dispatch_uid="audit")
    post_save.connect(_factor_saved, sender="mfa.Authenticator", dispatch_uid="audit")
    post_delete.connect(_factor_removed, sender="mfa.Authenticator", dispatch_uid="audit")


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


def _wrong_code(sender: Any, user: Any, authenticator: Any, **others: Any) -> None:
    for membership in user.memberships.select_related("organisation"):
        record(Action.SIGN_IN_FAILED, membership.organisation, user.email, kind=str(authenticator.type))


def _factor_saved(sender: Any, instance: Any, created: bool, **others: Any) -> None:
    if created:
        _factor(Action.SECOND_FACTOR_ADDED, instance)


def _factor_removed(sender: Any, instance: Any, **others: Any) -> None:
    _factor(Action.SECOND_FACTOR_REMOVED, instance)


def _factor(action: Action, factor: Any) -> None:
    for membership in factor.user.memberships.select_related("organisation"):
        record(action, membership.organisation, factor.user.email, kind=str(factor.type))
