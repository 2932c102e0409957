"""How many requests of an organisation a web process answers at once."""

from collections import Counter
from collections.abc import Callable
from threading import Lock
from typing import Any

from django.conf import settings
from django.http import HttpResponse

from workbench.api.problems import refuse
from workbench.serving.lanes import credential, reads_page, remember

WAIT_SECONDS = 1
SENTENCE = "Your organisation has too many requests under way; try again in a second."


class ConcurrencyLimitMiddleware:
    """Answers 429 to one request more than ORGANISATION_REQUESTS of an organisation in one lane of this process.

    So slow requests of one organisation leave threads to the others. The server lets requests wait whose credential it
    has seen; this is for those that it had not.
    """

    def __init__(self, get_response: Callable[[Any], HttpResponse]) -> None:
        self.get_response = get_response
        self._counts: Counter[tuple[Any, bool]] = Counter()
        self._lock = Lock()

    def __call__(self, request: Any) -> HttpResponse:
        if request.organisation is None:
            return self.get_response(request)
        caller = credential(request.headers.get("Authorization", ""), request.headers.get("Cookie", ""))
        remember(caller, request.organisation.pk)
        lane = (request.organisation.pk, reads_page(request.method, request.path))
        with self._lock:
            if self._counts[lane] >= settings.ORGANISATION_REQUESTS:
                return refuse(request, 429, "Too many requests", SENTENCE, WAIT_SECONDS)
            self._counts[lane] += 1
        try:
            return self.get_response(request)
        finally:
            with self._lock:
                self._counts[lane] -= 1
                if not self._counts[lane]:
                    del self._counts[lane]
