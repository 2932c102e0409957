"""Runs in the public API: start, list, follow, cancel, and take what came out."""

import uuid
from datetime import datetime
from typing import Any

from django.http import FileResponse
from django.shortcuts import get_object_or_404
from ninja import Field, Query, Router, Schema, Status

from workbench.accounts.permissions import can_submit
from workbench.api.pagination import Page, PageQuery, page
from workbench.api.problems import Problem
from workbench.intake import blobs
from workbench.intake.models import Unreadable, Workload
from workbench.runs import services
from workbench.runs.models import Run, StageRun
from workers.documents.stages import Results, RunState, Stage, StageFailure, Verdict

router = Router(tags=["runs"])


class NewRun(Schema):
    """Which workload to run, and on which of its GPU classes (default: the first that has a worker)."""

    workload: uuid.UUID
    gpu_class: str | None = None


class StageSummary(Schema):
    """How far a stage is; `progress` from 0 to 1."""

    stage: str
    state: str
    attempt: int
    progress: float
    message: str
    started_at: datetime | None
    finished_at: datetime | None


class RunSummary(Schema):
    """A run in a list."""

    id: uuid.UUID
    workload: uuid.UUID = Field(alias="workload_id")
    state: RunState
    stage: str
    attempt: int
    gpu_class: str
    verdict: Verdict | None
    cancel_requested: bool
    error: StageFailure | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @staticmethod
    def resolve_verdict(run: Run) -> str | None:
        return run.verdict or None


class RunDetail(RunSummary):
    """A run with its stages; `waiting` says why it does not move."""

    stages: list[StageSummary]
    waiting: str

    @staticmethod
    def resolve_stages(run: Run) -> list[StageRun]:
        return list(run.stages.all())

    @staticmethod
    def resolve_waiting(run: Run) -> str:
        return services.waiting_for(run)


class EventItem(Schema):
    """One line of a run's log."""

    id: int
    at: datetime
    stage: str
    attempt: int
    kind: str
    message: str
    data: dict[str, Any] | None


class Events(Schema):
    """Events in order; ask again with `after` = `last` for the next ones."""

    items: list[EventItem]
    last: int


class StageDocument(StageSummary):
    """A stage with its result, or what is already known of it."""

    partial: dict[str, Any] | None
    result: dict[str, Any] | None


class ResultDocument(Schema):
    """Everything the stages that are done have found."""

    run: uuid.UUID
    state: RunState
    verdict: Verdict | None
    results: Results


def _run(request: Any, run_id: uuid.UUID) -> Run:
    return get_object_or_404(Run.objects.for_user(request.user).select_related("workload"), id=run_id)


def _may_submit(request: Any) -> None:
    if not can_submit(request.membership):
        raise Problem(403, "Only an engineer or an admin of the organisation may do this.")


@router.post("/runs", response={201: RunDetail}, summary="Start a run")
def create(request: Any, body: NewRun) -> Any:
    """Start the pipeline on a workload."""
    _may_submit(request)
    workload = get_object_or_404(Workload.objects.for_user(request.user).select_related("model"), id=body.workload)
    try:
        run = services.create_run(workload, request.user, body.gpu_class)
    except services.RunError as error:
        raise Problem(422, f"{error.field}: {error}", [{"field": error.field, "reason": str(error)}]) from error
    return Status(201, run)


@router.get("/runs", response=Page[RunSummary], summary="List runs, newest first")
def index(
    request: Any,
    query: Query[PageQuery],
    state: RunState | None = None,
    workload: uuid.UUID | None = None,
) -> dict[str, Any]:
    """The organisation's runs, perhaps those of one state or one workload."""
    rows = Run.objects.for_user(request.user)
    if state is not None:
        rows = rows.filter(state=state)
    if workload is not None:
        rows = rows.filter(workload=workload)
    return page(rows, query)


@router.get("/runs/{uuid:run_id}", response=RunDetail, summary="Read a run")
def read(request: Any, run_id: uuid.UUID) -> Run:
    """A run and its stages."""
    return _run(request, run_id)


@router.post("/runs/{uuid:run_id}/cancel", response=RunDetail, summary="Cancel a run")
def cancel(request: Any, run_id: uuid.UUID) -> Run:
    """What waits is cancelled at once; a running stage is stopped within seconds."""
    _may_submit(request)
    try:
        return services.cancel_run(_run(request, run_id), request.user)
    except services.RunError as error:
        raise Problem(409, f"{error.field}: {error}") from error


@router.get("/runs/{uuid:run_id}/events", response=Events, summary="Follow a run")
def events(request: Any, run_id: uuid.UUID, after: int = 0, limit: int = Query(200, ge=1, le=1000)) -> dict[str, Any]:
    """The run's log from the event `after` on."""
    items = list(_run(request, run_id).events.filter(id__gt=after)[:limit])
    return {"items": items, "last": items[-1].id if items else after}


@router.get("/runs/{uuid:run_id}/stages/{stage}", response=StageDocument, summary="Read a stage's result")
def stage(request: Any, run_id: uuid.UUID, stage: Stage) -> StageRun:
    """A stage's result, and while it runs what is already known."""
    return get_object_or_404(StageRun, run=_run(request, run_id), stage=stage)


def _results(run: Run) -> Results:
    """The results; a Problem 409 where this version cannot read them."""
    try:
        return services.results(run)
    except Unreadable as error:
        raise Problem(409, str(error)) from error


@router.get("/runs/{uuid:run_id}/result", response=ResultDocument, summary="Read the results")
def result(request: Any, run_id: uuid.UUID) -> dict[str, Any]:
    """The results of the stages that are done, and the verdict once there is one."""
    run = _run(request, run_id)
    return {"run": run.id, "state": run.state, "verdict": run.verdict or None, "results": _results(run)}


@router.get("/runs/{uuid:run_id}/plan", response=dict[str, Any], summary="Take the plan")
def plan(request: Any, run_id: uuid.UUID) -> dict[str, Any]:
    """plan.json, as `python -m kernels run --plan` takes it."""
    run = _run(request, run_id)
    found = _results(run)
    if found.verify is None:
        raise Problem(404, services.lacks(run, "verified plan"))
    return found.verify.plan


@router.get("/runs/{uuid:run_id}/artifacts/{stage}/{name}", summary="Take a file that a stage kept")
def artifact(request: Any, run_id: uuid.UUID, stage: Stage, name: str) -> FileResponse:
    """The content of an artifact, such as the profile's trace."""
    found = get_object_or_404(_run(request, run_id).artifacts, stage=stage, name=name)
    file = blobs.path_of(found.sha256).open("rb")
    return FileResponse(file, as_attachment=True, filename=found.name, content_type="application/octet-stream")
