"""The addresses of the worker API; every other one is a 404 in plain text."""

from django.http import HttpRequest, HttpResponse
from django.urls import path

from workbench.api.auth import worker_auth
from workbench.api.problems import ProblemAPI
from workbench.runs.worker_api import router

api = ProblemAPI(
    title="Kernel workbench: worker API", version="1", urls_namespace="worker-api", docs_url=None, openapi_url=None
)
api.add_router("/worker", router, auth=worker_auth, tags=["worker"])


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """No template: the pages' templates need a person."""
    return HttpResponse("There is no such address.\n", status=404, content_type="text/plain")


urlpatterns = [path("api/v1/", api.urls)]
handler404 = not_found
