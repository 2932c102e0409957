"""Rate limits, counted per person and per organisation: by how many tokens they come makes no difference."""

import time
from typing import Any

from django.conf import settings
from django.http import HttpResponse

from workbench.accounts.throttle import count
from workbench.api.auth import SAFE_METHODS
from workbench.api.problems import API, refuse
from workbench.web.middleware import Middleware

WINDOW_SECONDS = 60


class RateLimitMiddleware(Middleware):
    """Answers 429 to a person, and to an organisation, that sent more than its requests within a clock minute.

    Every request of the API counts, and of the pages those that change something. Each has a count of its own: a stolen
    token cannot keep its owner from revoking it.
    """

    def __call__(self, request: Any) -> HttpResponse:
        in_api = request.path.startswith(API)
        if request.user.is_authenticated and (in_api or request.method not in SAFE_METHODS) and _over(request, in_api):
            wait = max(1, round(WINDOW_SECONDS - time.time() % WINDOW_SECONDS))
            reason = f"Too many requests of yours or of your organisation; try again in {wait} seconds."
            return refuse(request, 429, "Too many requests", reason, wait)
        return self.get_response(request)


def _over(request: Any, in_api: bool) -> bool:
    """Counts the request, and says whether it is one too many."""
    where = "api" if in_api else "pages"
    limits = {f"person:{request.user.pk}": settings.API_REQUESTS_PER_MINUTE}
    if request.organisation is not None:
        limits[f"organisation:{request.organisation.pk}"] = settings.ORGANISATION_REQUESTS_PER_MINUTE
    minute = int(time.time()) // WINDOW_SECONDS
    return any([count(f"rate:{where}:{caller}:{minute}", WINDOW_SECONDS) > limit for caller, limit in limits.items()])
