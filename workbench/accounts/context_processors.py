"""Variables about the caller for every template."""

from typing import Any

from django.http import HttpRequest

from workbench.accounts.permissions import can_admin, can_review, can_submit


def caller(request: HttpRequest) -> dict[str, Any]:
    """`organisation`, `membership`, `memberships`, `may_submit`, `may_review`, `may_admin` of the request."""
    membership = getattr(request, "membership", None)
    return {
        "organisation": getattr(request, "organisation", None),
        "membership": membership,
        "memberships": getattr(request, "memberships", []),
        "may_submit": can_submit(membership),
        "may_review": can_review(membership),
        "may_admin": can_admin(membership),
    }
