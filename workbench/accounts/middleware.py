"""Finds the caller of a request, and the organisation that the caller acts for."""

from typing import Any

from django.contrib.auth.middleware import LoginRequiredMiddleware as DjangoLoginRequired
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse

from workbench.accounts import tokens
from workbench.accounts.models import Membership
from workbench.accounts.secrets import TOKEN_MARK
from workbench.serving.body_limits import API
from workbench.web.middleware import Middleware

SESSION_KEY = "organisation"


class CallerMiddleware(Middleware):
    """Sets `request.organisation`, `request.membership` and `request.api_token` (None when there is none), and for a
    session `request.memberships`, to choose from.

    A token speaks for its user in its own organisation, and only under /api/. A session speaks for the organisation
    chosen last, or the member's first. A request with an Authorization header is never taken for its session.
    """

    def __call__(self, request: Any) -> HttpResponse:
        request.organisation = request.membership = request.api_token = None
        request.memberships = []
        if request.path.startswith(API) and "Authorization" in request.headers:
            self._take_token(request)
        elif request.user.is_authenticated:
            self._take_session(request)
        return self.get_response(request)

    def _take_token(self, request: Any) -> None:
        request.user = AnonymousUser()
        scheme, _, secret = request.headers["Authorization"].partition(" ")
        is_token = scheme.lower() == "bearer" and secret.strip().startswith(TOKEN_MARK)
        try:
            token = tokens.find(secret.strip()) if is_token else None
        except tokens.TokenExpired as expired:
            request.token_problem = str(expired)
            return
        if token is not None:
            request.user, request.api_token = token.user, token
            self._act(request, Membership.objects.get(user=token.user, organisation=token.organisation))

    def _take_session(self, request: Any) -> None:
        chosen = request.session.get(SESSION_KEY)
        request.memberships = list(Membership.objects.filter(user=request.user).select_related("organisation"))
        current = next(
            (membership for membership in request.memberships if str(membership.organisation_id) == chosen), None
        )
        if request.memberships:
            self._act(request, current or request.memberships[0])

    @staticmethod
    def _act(request: Any, membership: Membership) -> None:
        request.membership, request.organisation = membership, membership.organisation
        request.user.acting_for = membership.organisation


class LoginRequiredMiddleware(DjangoLoginRequired):
    """Every page asks for a login unless its view is marked otherwise; the API answers for itself.

    A part of a page that htmx fetches is answered by 401: a login page would be put into the page.
    """

    def process_view(self, request: HttpRequest, view_func: Any, view_args: Any, view_kwargs: Any) -> Any:
        if request.path.startswith(API):
            return None
        answer = super().process_view(request, view_func, view_args, view_kwargs)
        return HttpResponse(status=401) if answer is not None and "HX-Request" in request.headers else answer
