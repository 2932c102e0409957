"""Who may call the API: a bearer token, a session of the same origin, or a worker."""

import hmac
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from ninja.security import HttpBearer, SessionAuth

from workbench.accounts.models import ApiToken
from workbench.api.sentences import Problem

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class TokenAuth(HttpBearer):
    """An API token, which the middleware has looked up. Unsafe methods need the scope `write`."""

    def authenticate(self, request: Any, token: str) -> ApiToken | None:
        api_token: ApiToken | None = request.api_token
        if api_token is not None and request.method not in SAFE_METHODS and api_token.scope != ApiToken.Scope.WRITE:
            raise Problem(403, "This token may only read; writing needs a token with the scope 'write'.")
        return api_token


class BrowserAuth(SessionAuth):
    """A browser's session. Unsafe methods need the CSRF token as well."""

    def __call__(self, request: HttpRequest) -> Any:
        if "Authorization" in request.headers:
            return None
        if not request.user.is_authenticated:
            return None
        return super().__call__(request)

    def authenticate(self, request: Any, key: str | None) -> Any:
        if request.membership is None:
            raise Problem(403, "You are not a member of any organisation.")
        return request.user


class WorkerAuth(HttpBearer):
    """The token that all workers share. It is valid for the worker API only."""

    def authenticate(self, request: HttpRequest, token: str) -> bool | None:
        return hmac.compare_digest(token.encode(), settings.WORKER_TOKEN.encode()) or None


caller_auth = [TokenAuth(), BrowserAuth()]
worker_auth = WorkerAuth()
