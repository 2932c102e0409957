"""What was typed into a form that cannot be taken, since its page is older than the login, is kept all the same.

Where scripts run, app.js asks for the session before a form is sent, and none of this is seen.
"""

from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.middleware.csrf import CsrfViewMiddleware
from django.shortcuts import render

FORGOTTEN = ("csrfmiddlewaretoken", "do", "endpoint.key", "key_carried", "seen")
"""Fields that are not written into a page for somebody who is logged out: what only a login may say or know."""


class _TokenCheck(CsrfViewMiddleware):
    """Gives the reason of a refusal in the place of an answer."""

    def _reject(self, request: HttpRequest, reason: str) -> Any:
        return reason


def is_stale(request: HttpRequest) -> bool:
    """Whether the form was not made for this login: Django's check of the CSRF token, for a view that is exempt."""

    def view(_: HttpRequest) -> HttpResponse:
        return HttpResponse()

    return bool(_TokenCheck(view).process_view(request, view, (), {}))


def logged_out(request: HttpRequest) -> HttpResponseBase:
    """The way to the login; after a POST a page that holds what was typed, to be shown again after the login."""
    if "HX-Request" in request.headers:
        return HttpResponse(status=401)
    if request.method != "POST":
        return redirect_to_login(request.get_full_path())
    typed = [(name, value) for name, values in request.POST.lists() if name not in FORGOTTEN for value in values]
    return render(request, "intake/unsent.html", {"typed": typed}, status=401)
