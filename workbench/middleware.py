"""Gives every request an id, which the log shows, and every response its security headers."""

import logging
import re
import uuid
from collections.abc import Callable
from contextvars import ContextVar

from django.http import HttpRequest, HttpResponse

from workbench import disk

_request_id: ContextVar[str] = ContextVar("request_id", default="-")
_PLAIN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
GetResponse = Callable[[HttpRequest], HttpResponse]

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


class RequestIdFilter(logging.Filter):
    """Gives every log record the id of the request that it belongs to."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = _request_id.get()
        return True


class RequestIdMiddleware:
    """Takes a plain `X-Request-ID` from the caller or makes one, and sends it back."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        offered = request.headers.get("X-Request-ID", "")
        identity = offered if _PLAIN_ID.fullmatch(offered) else uuid.uuid4().hex
        token = _request_id.set(identity)
        try:
            response = self.get_response(request)
        finally:
            _request_id.reset(token)
        response["X-Request-ID"] = identity
        return response


class DeletionRoomMiddleware:
    """Lets a member delete things on a full disk: gives the room that is kept for that back to the file system."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        deletes = request.method == "DELETE" or (request.method == "POST" and request.path.endswith("/delete/"))
        if deletes and request.user.is_authenticated and disk.is_scarce():
            disk.give_room()
        return self.get_response(request)


class SecurityHeadersMiddleware:
    """Sets a content security policy and forbids shared caches to keep a page. A view may set its own headers."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        response.headers.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
        response.headers.setdefault("Cache-Control", "private, no-cache")
        return response
