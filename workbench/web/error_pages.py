"""Pages of errors that no view answers for."""

import sys
from typing import Any

from django.apps import apps
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from workbench.storage import database, disk

BUSY = "The workbench's database is busy, and nothing was stored; try again in a few seconds."
FULL = (
    "Nothing you entered was half-stored. Delete models, runs or uploads that you no longer need: deletion works on a "
    "full disk. If it stays full, tell the operator."
)
BROKEN = (
    "Nothing you entered was half-stored, and running work continues. Try again in a moment; if it stays, tell an "
    "admin when it happened."
)
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


def refused(status: int, title: str, reason: str, retry_after: int = 0, heading: str = "") -> HttpResponse:
    """A page that says why nothing was done. It needs no person and no database."""
    context = {"status": status, "title": title, "heading": heading or title, "reason": reason}
    page = render(None, "refused.html", context, status=status)
    if retry_after:
        page["Retry-After"] = str(retry_after)
    return page


def server_error(request: HttpRequest) -> HttpResponse:
    """The page of a view or a middleware that failed: 507 when the disk is full, 503 while the database is away."""
    error = sys.exception()
    if disk.is_full(error):
        return refused(507, "The disk is full", FULL, heading="The workbench's disk is full")
    if database.is_unavailable(error):
        return refused(503, "Busy", BUSY, database.RETRY_SECONDS)
    return refused(500, "Something broke", BROKEN, heading="Something broke on our side")
