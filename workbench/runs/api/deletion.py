"""Deletion in the public API: said beforehand, then done. It joins the routers of models, workloads and runs."""

from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from ninja import Status

from workbench.accounts.permissions import submitter_required
from workbench.intake.api import router as intake_router
from workbench.intake.models import Model, Workload
from workbench.runs import deletion
from workbench.runs.api.runs import router as runs_router
from workbench.runs.models import Run, StoredArtifact
from workers.documents.stages import Stage


def _own(request: Any, kind: Any, key: UUID) -> Any:
    return get_object_or_404(kind.objects.for_user(request.user), pk=key)


def _delete(request: Any, kind: Any, key: UUID, with_dependents: bool) -> Status[None]:
    deletion.delete(_own(request, kind, key), request.membership, with_dependents)
    return Status(204, None)


@intake_router.get(
    "/models/{model_id}/dependents", response=deletion.Dependents, tags=["models"], summary="What goes too"
)
def model_dependents(request: Any, model_id: UUID) -> deletion.Dependents:
    """What deleting the model would delete as well."""
    return deletion.dependents(_own(request, Model, model_id))


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
    return deletion.dependents(_own(request, Workload, workload_id))


@intake_router.delete("/workloads/{workload_id}", response={204: None}, tags=["workloads"], summary="Delete a workload")
@submitter_required
def delete_workload(request: Any, workload_id: UUID, with_dependents: bool = False) -> Status[None]:
    """When it has runs, only `with_dependents`. 409 while one of them is open."""
    return _delete(request, Workload, workload_id, with_dependents)


@runs_router.get("/runs/{uuid:run_id}/dependents", response=deletion.Dependents, summary="What goes too")
def run_dependents(request: Any, run_id: UUID) -> deletion.Dependents:
    """What deleting the run would delete as well."""
    return deletion.dependents(_own(request, Run, run_id))


@runs_router.delete("/runs/{uuid:run_id}", response={204: None}, summary="Delete a run")
@submitter_required
def delete_run(request: Any, run_id: UUID, with_dependents: bool = False) -> Status[None]:
    """With its kept files; when it has reports, only `with_dependents`. 409 while it is open."""
    return _delete(request, Run, run_id, with_dependents)


@runs_router.delete("/runs/{uuid:run_id}/artifacts/{stage}/{name}", response={204: None}, summary="Delete a file")
@submitter_required
def delete_artifact(request: Any, run_id: UUID, stage: Stage, name: str) -> Status[None]:
    """A file that a stage kept. The run's results stay."""
    rows = StoredArtifact.objects.for_user(request.user).select_related("run")
    deletion.delete_file(get_object_or_404(rows, run_id=run_id, stage=stage, name=name))
    return Status(204, None)
