"""Runs in the public API: start, list, follow, cancel, and take what came out."""

from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import CharField
from django.db.models.functions import Cast
from django.http import FileResponse, HttpResponse
from django.shortcuts import get_object_or_404
from ninja import Query, Router, Status

from workbench.accounts.permissions import submitter_required
from workbench.api.pagination import Page, PageQuery, page
from workbench.api.sentences import Problem
from workbench.intake import blobs
from workbench.intake.api import router as intake_router
from workbench.intake.models import LONGEST_PROJECT, Model, Unreadable, Workload
from workbench.openapi import answers_file
from workbench.runs import deletion, services
from workbench.runs.models import Run, StageRun, StoredArtifact
from workbench.runs.schemas import Events, NewRun, ResultDocument, RunDetail, RunLabels, RunSummary, StageDocument
from workbench.runs.tags import LONGEST_TAG, set_tags
from workbench.runs.views.runs import report_response
from workers.documents.stages import Results, RunState, Stage
from workers.wording.serving import served_plan

router = Router(tags=["runs"])


def own_run(request: Any, run_id: UUID) -> Run:
    return get_object_or_404(Run.objects.for_user(request.user).select_related("workload__model"), id=run_id)


@router.post("/runs", response={201: RunDetail}, summary="Start a run")
@submitter_required
def start_run(request: Any, body: NewRun) -> Any:
    """Start the pipeline on a workload."""
    workload = Workload.objects.for_user(request.user).select_related("model").filter(id=body.workload).first()
    if workload is None:
        reason = "no such workload in this organisation"
        raise Problem(404, f"workload: {reason}", [{"field": "workload", "reason": reason}])
    try:
        with transaction.atomic():
            run = services.create_run(workload, request.user, body.gpu_class, body.search_again)
            if body.tags:
                set_tags(run, body.tags)
    except services.RunError as error:
        raise Problem(422, f"{error.field}: {error}", [{"field": error.field, "reason": str(error)}]) from error
    return Status(201, run)


@router.get("/runs", response=Page[RunSummary], summary="List runs, newest first")
def list_runs(
    request: Any,
    query: Query[PageQuery],
    state: RunState | None = None,
    workload: UUID | None = None,
    tag: str = Query("", max_length=LONGEST_TAG),
    project: str = Query("", max_length=LONGEST_PROJECT),
    prefix: str = Query("", pattern=r"^([0-9a-f]{4,8})?$", description="how the id begins: 4 to 8 hexadecimal digits"),
) -> dict[str, Any]:
    """The organisation's runs, perhaps those of one state, workload, tag or project."""
    rows = Run.objects.for_user(request.user).select_related("workload__model").defer("workload__model__manifest")
    rows = rows.prefetch_related("tags")
    if tag:
        rows = rows.filter(tags__name=tag)
    if project:
        rows = rows.filter(workload__project=project)
    if prefix:
        rows = rows.annotate(text=Cast("id", CharField())).filter(text__startswith=prefix)
    if state is not None:
        rows = rows.filter(state=state)
    if workload is not None:
        rows = rows.filter(workload=workload)
    return page(rows, query)


@router.get("/runs/{uuid:run_id}", response=RunDetail, summary="Read a run")
def read_run(request: Any, run_id: UUID) -> Run:
    """A run and its stages."""
    return own_run(request, run_id)


@router.patch("/runs/{uuid:run_id}", response=RunDetail, summary="Set the tags of a run")
@submitter_required
def label_run(request: Any, run_id: UUID, labels: RunLabels) -> Run:
    """Puts these tags on the run, and no others."""
    run = own_run(request, run_id)
    set_tags(run, labels.tags)
    return run


@router.post("/runs/{uuid:run_id}/cancel", response=RunDetail, summary="Cancel a run")
@submitter_required
def cancel_run(request: Any, run_id: UUID) -> Run:
    """A queued run is cancelled at once; a running stage is stopped within seconds."""
    try:
        return services.cancel_run(own_run(request, run_id), request.user)
    except services.RunError as error:
        raise Problem(409, f"{error.field}: {error}") from error


@router.post("/runs/{uuid:run_id}/go-on", response={201: RunDetail}, summary="Go on with more minutes")
@submitter_required
def go_on(request: Any, run_id: UUID) -> Any:
    """Start a run of the same workload that tries the plans which this one left out for time, with the minutes of its
    verify result's `minutes_wanted`. What was measured is not measured again.
    """
    try:
        return Status(201, services.go_on(own_run(request, run_id), request.user))
    except services.RunError as error:
        raise Problem(409, f"{error.field}: {error}") from error


@router.get("/runs/{uuid:run_id}/events", response=Events, summary="Follow a run")
def list_events(request: Any, run_id: UUID, after: int = 0, limit: int = Query(200, ge=1, le=1000)) -> dict[str, Any]:
    """The run's log from the event `after` on."""
    items = list(own_run(request, run_id).events.filter(id__gt=after)[:limit])
    return {"items": items, "last": items[-1].id if items else after}


@router.get("/runs/{uuid:run_id}/stages/{stage}", response=StageDocument, summary="Read a stage's result")
def read_stage(request: Any, run_id: UUID, stage: Stage) -> StageRun:
    """A stage's result, and while it runs what is already known."""
    return get_object_or_404(StageRun, run=own_run(request, run_id), stage=stage)


def _results(run: Run) -> Results:
    """The results; a Problem 409 where this version cannot read them."""
    try:
        return services.results(run)
    except Unreadable as error:
        raise Problem(409, str(error)) from error


@router.get("/runs/{uuid:run_id}/result", response=ResultDocument, summary="Read the results")
def read_results(request: Any, run_id: UUID) -> dict[str, Any]:
    """The results of the stages that are done, and the verdict once there is one."""
    run = own_run(request, run_id)
    return {"run": run.id, "state": run.state, "verdict": run.verdict or None, "results": _results(run)}


@router.get("/runs/{uuid:run_id}/plan", response=dict[str, Any], summary="Take the plan")
def read_plan(request: Any, run_id: UUID) -> dict[str, Any]:
    """plan.json, as `python -m kernels run --plan` takes it."""
    run = own_run(request, run_id)
    results = _results(run)
    if results.verify is None:
        raise Problem(404, services.lacks(run, "verified plan"))
    return served_plan(results)


@router.get(
    "/runs/{uuid:run_id}/artifacts/{stage}/{name}",
    summary="Take a file that a stage kept",
    openapi_extra=answers_file("application/octet-stream"),
)
def read_artifact(request: Any, run_id: UUID, stage: Stage, name: str) -> FileResponse:
    """The content of an artifact, such as the profile's trace."""
    artifact = get_object_or_404(own_run(request, run_id).artifacts, stage=stage, name=name)
    return blobs.response(artifact, as_attachment=True, filename=artifact.name)


@router.get(
    "/runs/{uuid:run_id}/report", tags=["reports"], summary="Take the report", openapi_extra=answers_file("text/html")
)
def read_run_report(request: Any, run_id: UUID) -> HttpResponse:
    """The self-contained HTML report that the run wrote."""
    run = own_run(request, run_id)
    response = report_response(run, "report.html", download=True)
    if response is None:
        raise Problem(404, services.lacks(run, "report"))
    return response


def _run_or_404(request: Any, kind: Any, key: UUID) -> Any:
    return get_object_or_404(kind.objects.for_user(request.user), pk=key)


def _delete(request: Any, kind: Any, key: UUID, with_dependents: bool) -> Status[None]:
    deletion.delete(_run_or_404(request, kind, key), request.membership, with_dependents)
    return Status(204, None)


# django-ninja answers 405 to the second router of a path, and a deletion has the path of what it deletes.
@intake_router.get(
    "/models/{model_id}/dependents", response=deletion.Dependents, tags=["models"], summary="What goes too"
)
def model_dependents(request: Any, model_id: UUID) -> deletion.Dependents:
    """What deleting the model would delete as well."""
    return deletion.dependents(_run_or_404(request, Model, model_id))


@intake_router.delete("/models/{model_id}", response={204: None}, tags=["models"], summary="Delete a model")
@submitter_required
def delete_model(request: Any, model_id: UUID, with_dependents: bool = False) -> Status[None]:
    """With its files; when workloads are about it, only `with_dependents`. 409 while a run of it is open."""
    return _delete(request, Model, model_id, with_dependents)


@intake_router.get(
    "/workloads/{workload_id}/dependents", response=deletion.Dependents, tags=["workloads"], summary="What goes too"
)
def workload_dependents(request: Any, workload_id: UUID) -> deletion.Dependents:
    """What deleting the workload would delete as well."""
    return deletion.dependents(_run_or_404(request, Workload, workload_id))


@intake_router.delete("/workloads/{workload_id}", response={204: None}, tags=["workloads"], summary="Delete a workload")
@submitter_required
def delete_workload(request: Any, workload_id: UUID, with_dependents: bool = False) -> Status[None]:
    """When it has runs, only `with_dependents`. 409 while one of them is open."""
    return _delete(request, Workload, workload_id, with_dependents)


@router.get("/runs/{uuid:run_id}/dependents", response=deletion.Dependents, summary="What goes too")
def run_dependents(request: Any, run_id: UUID) -> deletion.Dependents:
    """What deleting the run would delete as well."""
    return deletion.dependents(_run_or_404(request, Run, run_id))


@router.delete("/runs/{uuid:run_id}", response={204: None}, summary="Delete a run")
@submitter_required
def delete_run(request: Any, run_id: UUID, with_dependents: bool = False) -> Status[None]:
    """With its kept files; when it has reports, only `with_dependents`. 409 while it is open."""
    return _delete(request, Run, run_id, with_dependents)


@router.delete("/runs/{uuid:run_id}/artifacts/{stage}/{name}", response={204: None}, summary="Delete a file")
@submitter_required
def delete_artifact(request: Any, run_id: UUID, stage: Stage, name: str) -> Status[None]:
    """A file that a stage kept. The run's results stay."""
    rows = StoredArtifact.objects.for_user(request.user).select_related("run")
    deletion.delete_file(get_object_or_404(rows, run_id=run_id, stage=stage, name=name))
    return Status(204, None)
