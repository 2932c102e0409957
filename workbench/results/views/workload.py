"""The page of a workload: what it asks for, and its runs."""

import json
from uuid import UUID

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from workbench.intake.models import Workload
from workbench.intake.views.workload_form import own_workload
from workbench.pages.filters import ordered
from workbench.results.front import front_of
from workbench.results.page_context import request_words
from workbench.runs.models import Run
from workbench.runs.reuse import earlier_search
from workers.documents.workload import Workload as WorkloadDocument

PAGE_SIZE = 25
ORDERS = {
    "started": "created_at",
    "state": "state",
    "gpu": "gpu_class",
    "verdict": "verdict",
    "by": "created_by__email",
}


@require_safe
def workload_page(request: HttpRequest, workload_id: UUID) -> HttpResponse:
    """One workload: what it asks for, and its runs."""
    workload = own_workload(request, workload_id)
    document, unreadable = workload.reading
    runs = workload.runs.select_related("created_by").prefetch_related("tags")
    projects = Workload.objects.for_user(request.user)
    manifest = workload.model.reading[0]
    context = {
        "workload": workload,
        "sla": document,
        "request_words": request_words(document, manifest),
        "counted": manifest.counted if manifest else "tokens",
        "unreadable": unreadable,
        "page": Paginator(ordered(runs, request, ORDERS), PAGE_SIZE).get_page(request.GET.get("page")),
        "projects": projects.exclude(project="").order_by("project").values_list("project", flat=True).distinct(),
        "project_query": urlencode({"project": workload.project}),
        "document": json.dumps(workload.document, indent=2),
        "front": front_of(workload, document, manifest) if document and manifest else None,
        "known_search": _known_search(workload, document) if document else None,
    }
    return render(request, "results/workload.html", context)


def _known_search(workload: Workload, document: WorkloadDocument) -> Run | None:
    """The run whose search another one of the workload would take over, on the first class that has one."""
    organisation, classes = workload.organisation, document.constraints.gpu_classes
    runs = (Run(organisation=organisation, workload=workload, gpu_class=gpu_class) for gpu_class in classes)
    return next(filter(None, map(earlier_search, runs)), None)
