"""Rate limits, counted per token or per person."""

from typing import Any

from django.conf import settings
from ninja.throttling import SimpleRateThrottle


class CallerThrottle(SimpleRateThrottle):
    """API_RATE_LIMIT requests for each token, or for each logged-in person."""

    def __init__(self) -> None:
        super().__init__(settings.API_RATE_LIMIT)

    def get_cache_key(self, request: Any) -> str | None:
        token = getattr(request, "api_token", None)
        return f"api-rate:{'token' if token else 'user'}:{(token or request.user).pk}"
