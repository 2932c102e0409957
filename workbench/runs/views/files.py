"""The files that a run leaves: its plan, its report, timelines, and what its stages kept."""

import json
from uuid import UUID

from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from workbench.intake.blobs import path_of
from workbench.runs import report_files, services
from workbench.runs.models import Run, StoredArtifact
from workbench.runs.views.runs import get_run

TIMELINES = {"before": ("profile", "timeline.json.gz"), "after": ("verify", "plan-timeline.json.gz")}
"""The stage that keeps the timeline of a traced request, and the file's name."""


@require_safe
def timeline(request: HttpRequest, run_id: UUID, side: str) -> FileResponse:
    """The lanes of a traced request as `workers/traces/timeline.py` writes them; `side` is before or after."""
    stage, name = TIMELINES[side]
    row = get_run(request, run_id).artifacts.filter(stage=stage, name=name).first()
    if row is None or not path_of(row.sha256).exists():
        raise Http404("The run kept no such timeline.")
    response = FileResponse(path_of(row.sha256).open("rb"), content_type="application/json")
    response["Content-Encoding"] = "gzip"
    return response


@require_safe
def plan(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """plan.json: the verified plan, or the composed one while the run is not verified."""
    run = get_run(request, run_id)
    known, _ = services.reading(run)
    stage = known.verify or known.compose
    if stage is None:
        return _lacking(request, run, "plan")
    response = HttpResponse(json.dumps(stage.plan, indent=2) + "\n", content_type="application/json")
    response["Content-Disposition"] = 'attachment; filename="plan.json"'
    return response


@require_safe
def report_file(request: HttpRequest, run_id: UUID, file: str) -> HttpResponse:
    """The draft that the run wrote, or a file made of it (`report_files.MEDIA_TYPES`); `?download` saves the page."""
    run = get_run(request, run_id)
    return report_response(run, file, "download" in request.GET) or _lacking(request, run, "report")


def _lacking(request: HttpRequest, run: Run, what: str) -> HttpResponse:
    return render(request, "404.html", {"reason": services.lacks(run, what), "run": run}, status=404)


def report_response(run: Run, file: str, download: bool) -> HttpResponse | None:
    """A file of the report; None before it is written. Raises Http404 for a file of another name."""
    row = StoredArtifact.objects.filter(run=run, stage="report", name="report.html").first()
    if row is None:
        return None
    if file not in report_files.MEDIA_TYPES:
        raise Http404("A report has no such file.")
    page = path_of(row.sha256).read_text("utf-8")
    return report_files.respond(page, file, f"report-{run.id}", download, run.organisation_id)


@require_safe
def artifact(request: HttpRequest, run_id: UUID, sha256: str) -> FileResponse:
    """A file that a stage of this run kept, as a download; of what kind it is, only the stage says."""
    row = get_run(request, run_id).artifacts.filter(sha256=sha256).first()
    if row is None or not path_of(row.sha256).exists():
        raise Http404("The run kept no such file.")
    return FileResponse(
        path_of(row.sha256).open("rb"), as_attachment=True, filename=row.name, content_type="application/octet-stream"
    )
