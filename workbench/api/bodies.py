"""Refuses bodies that are too large for their address, whatever server stands before this site."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from workbench.api.problems import respond
from workbench.serving.body_limits import API, body_limit
from workbench.web.middleware import Middleware

TITLES = {411: "The length of the form is missing", 413: "The form is too large"}


class BodyLimitMiddleware(Middleware):
    """Answers 413 to a body that is too long for its address, and 411 to one that does not say how long it is.

    A body without a length would have to be counted while it is parsed. Our own server counts it before.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("Content-Length", "")
        if "Transfer-Encoding" in request.headers and not given:
            return _refuse(request, 411, "Send the body's Content-Length; bodies in chunks are not taken.")
        length = int(given) if given.isascii() and given.isdigit() else 0
        token = request.path.startswith(API) and "Authorization" in request.headers
        credential = token or settings.SESSION_COOKIE_NAME in request.COOKIES
        limit = body_limit(str(request.method), request.path, credential)
        if limit is not None and length > limit:
            return _refuse(request, 413, f"The body has {length:,} bytes; at most {limit:,} are taken here.")
        return self.get_response(request)


def _refuse(request: HttpRequest, status: int, reason: str) -> HttpResponse:
    if request.path.startswith(API):
        return respond(status, reason)
    return render(None, "refused.html", {"status": status, "title": TITLES[status], "reason": reason}, status=status)
