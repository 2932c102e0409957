"""Pages of errors that no view answers for."""

import sys
from typing import Any

from django.apps import apps
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from workbench.storage import database, disk

BUSY = "The workbench's database is busy, and nothing was stored; try again in a few seconds."
OF_ORGANISATIONS = {
    "workload_id": "intake.Workload",
    "model_id": "intake.Model",
    "run_id": "runs.Run",
    "report_id": "reports.Report",
    "bring_up_id": "bring_ups.BringUpRow",
}
"""The parameter of an address that names an object of an organisation, and the object's model."""


def _owner(request: Any) -> Any:
    """The organisation of the object that the address names, if the user is a member of it but acts for another."""
    parameters = request.resolver_match.kwargs if request.resolver_match else {}
    for name, kind in OF_ORGANISATIONS.items():
        if name in parameters and request.user.is_authenticated:
            rows = apps.get_model(kind).objects.of_memberships(request.user).select_related("organisation")
            target = rows.filter(pk=parameters[name]).first()
            return target.organisation if target and target.organisation != request.organisation else None
    return None


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """The page of an address that leads nowhere, or to another organisation: a member may switch to it and go on."""
    owner = _owner(request) if request.method == "GET" else None
    parameters = request.resolver_match.kwargs if request.resolver_match else {}
    kind = next((name.removesuffix("_id").replace("_", "-") for name in parameters if name in OF_ORGANISATIONS), "")
    return render(request, "404.html", {"owner": owner, "kind": kind}, status=404)


def server_error(request: HttpRequest) -> HttpResponse:
    """The page of a view or a middleware that failed: 507 when the disk is full, 503 while the database is away."""
    error = sys.exception()
    full = disk.is_full(error)
    if not full and database.is_unavailable(error):
        context = {"status": 503, "title": "Busy", "reason": BUSY}
        page = render(None, "refused.html", context, status=503)
        page["Retry-After"] = str(database.RETRY_SECONDS)
        return page
    return render(request, "507.html" if full else "500.html", status=507 if full else 500)
