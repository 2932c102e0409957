"""Middleware for every request: its id, which the log shows, addresses that nothing can have, room for deletions on a
full disk, and the response's security headers.
"""

import re
import uuid
from collections.abc import Callable
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from ninja.throttling import SimpleRateThrottle

from workbench.storage import disk
from workers.shared import logs

_PLAIN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'self'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",  # plotly and htmx write style elements
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    ]
)


def client_address(request: HttpRequest) -> str:
    """The caller's network address; behind a proxy the one that the proxy reports."""
    return SimpleRateThrottle.get_ident(SimpleRateThrottle("1/s"), request) or ""


class Middleware:
    """The base of middleware: `get_response` is what comes behind it, down to the view."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response


class RequestIdMiddleware(Middleware):
    """Takes a plain `X-Request-ID` from the caller or makes one, and sends it back."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        offered = request.headers.get("X-Request-ID", "")
        identity = offered if _PLAIN_ID.fullmatch(offered) else uuid.uuid4().hex
        logs.clear()
        logs.bind(request_id=identity)
        response = self.get_response(request)
        response["X-Request-ID"] = identity
        return response

    def process_view(self, request: HttpRequest, view: Any, arguments: Any, named: dict[str, Any]) -> None:
        """Put the run that the address names on every line of the log."""
        if "run_id" in named:
            logs.bind(run_id=str(named["run_id"]))


class NulMiddleware(Middleware):
    """Answers 404 to an address with the character NUL: nothing has such a name, and PostgreSQL refuses to look it up.

    It comes last, so that the page of the 404 knows its reader.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if "\0" in request.path_info:
            raise Http404
        return self.get_response(request)


class DeletionRoomMiddleware(Middleware):
    """Lets a member delete things on a full disk: gives the room that is kept for that back to the file system."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        deletes = request.method == "DELETE" or (request.method == "POST" and request.path.endswith("/delete/"))
        if deletes and request.user.is_authenticated and disk.is_scarce():
            disk.give_room()
        return self.get_response(request)


class SecurityHeadersMiddleware(Middleware):
    """Sets a content security policy, and keeps pages out of shared caches and search engines.

    A view may set its own headers.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        response.headers.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
        response.headers.setdefault("Cache-Control", "private, no-cache")
        response.headers.setdefault("X-Robots-Tag", "noindex, nofollow")
        return response
