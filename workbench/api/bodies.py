"""Refuses bodies that are too large for their address, whatever server stands before this site."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from workbench.api.problems import refuse
from workbench.serving.body_limits import API, body_limit
from workbench.web.middleware import Middleware


class BodyLimitMiddleware(Middleware):
    """Answers 413 to a body that is too long for its address, and 411 to one that does not say how long it is.

    A body without a length would have to be counted while it is parsed. Our own server counts it before.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("Content-Length", "")
        if "Transfer-Encoding" in request.headers and not given:
            reason = "Send the body's Content-Length; bodies in chunks are not taken."
            return refuse(request, 411, "The length of the form is missing", reason)
        length = int(given) if given.isascii() and given.isdigit() else 0
        token = request.path.startswith(API) and "Authorization" in request.headers
        credential = token or settings.SESSION_COOKIE_NAME in request.COOKIES
        limit = body_limit(str(request.method), request.path, credential)
        if limit is not None and length > limit:
            reason = f"The body has {length:,} bytes; at most {limit:,} are taken here."
            return refuse(request, 413, "The form is too large", reason)
        return self.get_response(request)
