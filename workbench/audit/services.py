"""Adds entries to the audit log and writes them as JSON lines."""

import json
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from workbench.audit.models import NEVER_REFUSED, Action, Entry
from workbench.web.middleware import Middleware, client_address
from workers.shared.logs import request_id

DAY = timedelta(days=1)
MAX_PER_DAY = 5_000
"""The most entries of one person within a day, at 1 KiB or so each."""
_request: ContextVar[Any] = ContextVar("audited_request", default=None)


class AuditMiddleware(Middleware):
    """Keeps the request at hand for `record`. It stands behind the middleware that finds the caller."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        token = _request.set(request)
        try:
            return self.get_response(request)
        finally:
            _request.reset(token)


def record(action: Action, organisation: Any, subject: Any = None, actor: Any = None, **details: Any) -> None:
    """Adds an entry. Call it in the transaction of what it is about, so that neither exists without the other.

    `subject` is a row or a text. The actor is the caller of the request if not given; without a request it is `actor`,
    or the system. Raises PermissionDenied when the actor has done too much today, since entries cannot be deleted.
    """
    request = _request.get()
    actor = actor or getattr(request, "user", None)
    if getattr(actor, "is_authenticated", False) and action not in NEVER_REFUSED:
        _check_day(actor)
    token = getattr(request, "api_token", None)
    Entry.objects.create(
        action=action,
        organisation=organisation,
        actor=actor if getattr(actor, "is_authenticated", False) else None,
        actor_email=getattr(actor, "email", ""),
        token=token.prefix if token else "",
        address=client_address(request)[:45] if request else "",
        request_id=request_id() if request else "",
        subject=str(subject or "")[:200],
        subject_id=str(getattr(subject, "pk", "")),
        details=details,
    )


def _check_day(actor: Any) -> None:
    """Raises PermissionDenied when the actor's last MAX_PER_DAY entries are of one day."""
    times = Entry.objects.filter(actor=actor).order_by("-id").values_list("at", flat=True)
    if any(at > timezone.now() - DAY for at in times[MAX_PER_DAY - 1 : MAX_PER_DAY]):
        raise PermissionDenied(f"You did {MAX_PER_DAY:,} things within a day that the audit log keeps; go on tomorrow.")


def lines(entries: Iterable[Entry]) -> Iterator[str]:
    """The entries as JSON, one a line."""
    for entry in entries:
        yield json.dumps(entry.document, ensure_ascii=False) + "\n"
