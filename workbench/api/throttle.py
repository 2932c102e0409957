"""Rate limits, counted per token or per person."""

import time
from typing import Any

from django.conf import settings
from django.core.cache import cache
from ninja.throttling import BaseThrottle

WINDOW_SECONDS = 60


class CallerThrottle(BaseThrottle):
    """API_REQUESTS_PER_MINUTE for each token, or for each logged-in person, counted per clock minute.

    It stores nothing about a request, since one instance serves all threads.
    """

    def allow_request(self, request: Any) -> bool:
        """Count the request and say whether it may pass."""
        caller = f"token:{request.api_token.pk}" if request.api_token else f"user:{request.user.pk}"
        key = f"api-rate:{caller}:{int(time.time()) // WINDOW_SECONDS}"
        cache.add(key, 0, WINDOW_SECONDS)
        try:
            return cache.incr(key) <= settings.API_REQUESTS_PER_MINUTE
        except ValueError:  # the counter ended between the two calls
            return True

    def wait(self) -> float:
        """Seconds until the next minute begins."""
        return WINDOW_SECONDS - time.time() % WINDOW_SECONDS
