"""`/metrics` for Prometheus, and the time of every request.

The address wants METRICS_TOKEN as a bearer token, and is not there while that is not set. Each site tells its own
requests, over all its processes; what METRICS_COLLECTORS names is asked when Prometheus asks.
"""

import os
import time

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.utils.module_loading import import_string
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from workbench.web.middleware import Middleware

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2.5, 5, 10)
NO_VIEW = "none"
"""The address of requests that no view answered: static files, redirects, bodies that were refused."""
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
"""A caller's own words must not become labels without end."""

requests = Histogram(
    "workbench_request_seconds",
    "Time from the whole request to the beginning of its response, by the address' pattern",
    ["method", "address", "status"],
    buckets=SECONDS,
    registry=None,
)


class MetricsMiddleware(Middleware):
    """Times requests, and answers `/metrics` before redirects, host checks and logins."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info == "/metrics" and settings.METRICS_TOKEN:
            return _answer(request)
        began = time.perf_counter()
        response = self.get_response(request)
        match = request.resolver_match
        address = match.route if match else NO_VIEW
        status = f"{response.status_code // 100}xx"
        method = request.method if request.method in METHODS else "other"
        requests.labels(method, address, status).observe(time.perf_counter() - began)
        return response


def _answer(request: HttpRequest) -> HttpResponse:
    if not constant_time_compare(request.headers.get("Authorization", ""), f"Bearer {settings.METRICS_TOKEN}"):
        return HttpResponse("Send METRICS_TOKEN as a bearer token.\n", status=401, content_type="text/plain")
    return HttpResponse(generate_latest(_registry()), content_type=CONTENT_TYPE_LATEST)


def _registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:  # set by serving/worker.py before any process of the site begins
        MultiProcessCollector(registry)
    else:
        registry.register(requests)
    for name in settings.METRICS_COLLECTORS:
        registry.register(import_string(name)())
    return registry
