"""How much of their inbox a member has not read, for the link on every page."""

from typing import Any

from django.db.models import Q
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from workbench.notifications.models import Notice

MAX_COUNTED = 100


def inbox(request: HttpRequest) -> dict[str, Any]:
    """`unread`: notices that came after the member last marked all as read, at most MAX_COUNTED."""
    membership = getattr(request, "membership", None)
    return {"unread": SimpleLazyObject(lambda: unread(membership))} if membership else {}


def unread(membership: Any) -> int:
    """The count for one member."""
    after = Q(created_at__gt=membership.inbox_read_at) if membership.inbox_read_at else Q()
    return Notice.objects.inbox(membership).filter(after).order_by()[:MAX_COUNTED].count()
