"""The page that says what is deleted, and deletes it."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods

from workbench.accounts.permissions import submitter_required
from workbench.api.sentences import Problem
from workbench.intake.models import Model, Workload
from workbench.runs import deletion
from workbench.runs.models import Run

KINDS: dict[str, Any] = {"model": Model, "workload": Workload, "run": Run}


@require_http_methods(["GET", "HEAD", "POST"])
@submitter_required
def delete(request: HttpRequest, kind: str, **keys: UUID) -> HttpResponse:
    """A page that asks, and lists what would be deleted with the thing; a POST deletes it."""
    thing = get_object_or_404(KINDS[kind].objects.for_user(request.user), pk=keys[f"{kind}_id"])
    if request.method != "POST":
        affected = deletion.dependents(thing)
        return render(
            request, "runs/delete.html", {"kind": kind, "thing": thing, "affected": affected, "back": _page(thing)}
        )
    parent = thing.workload if isinstance(thing, Run) else None
    try:
        deletion.delete(thing, request.membership, with_dependents=True)  # type: ignore[attr-defined]
    except Problem as problem:
        messages.error(request, f"Not deleted: {problem.detail}.")
        return redirect(*_page(thing))
    messages.success(request, f"The {kind} has been deleted.")
    return redirect("workload", parent.id) if parent else redirect(f"{kind}-list")


def _page(thing: Any) -> tuple[str, UUID]:
    return thing._meta.model_name, thing.pk
