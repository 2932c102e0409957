"""The rights of each role, and decorators that check them."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase

from workbench.accounts.models import Membership, Role

View = Callable[..., Any]


def can_submit(membership: Membership | None) -> bool:
    """Whether this member hands in models and workloads, and starts and cancels runs."""
    return membership is not None and membership.role in (Role.ENGINEER, Role.ADMIN)


def can_review(membership: Membership | None) -> bool:
    """Whether this member reviews, annotates and publishes reports and keeps the prices."""
    return membership is not None and membership.role in (Role.ACCOUNT, Role.ADMIN)


def can_admin(membership: Membership | None) -> bool:
    """Whether this member invites, changes and removes members."""
    return membership is not None and membership.role == Role.ADMIN


def _requires(allowed: Callable[[Membership | None], bool], sentence: str) -> Callable[[View], View]:
    def decorate(view: View) -> View:
        @wraps(view)
        def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not allowed(getattr(request, "membership", None)):
                raise PermissionDenied(sentence)
            return view(request, *args, **kwargs)

        return checked

    return decorate


member_required = _requires(lambda membership: membership is not None, "You are not a member of any organisation.")
submitter_required = _requires(can_submit, "Only an engineer or an admin of the organisation may do this.")
reviewer_required = _requires(can_review, "Only the account role or an admin of the organisation may do this.")
admin_required = _requires(can_admin, "Only an admin of the organisation may do this.")
