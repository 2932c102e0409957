"""Deletion in the public API: said beforehand, then done. It adds to the routers of models, workloads and runs.

django-ninja answers 405 to the second router of a path, and a deletion has the path of what it deletes.
"""

from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from ninja import Router, Status

from workbench.accounts.permissions import submitter_required
from workbench.intake.models import Model, Workload
from workbench.runs import deletion
from workbench.runs.models import Run, StoredArtifact
from workers.documents.stages import Stage


def _own(request: Any, kind: Any, key: UUID) -> Any:
    return get_object_or_404(kind.objects.for_user(request.user), pk=key)


def _delete(request: Any, kind: Any, key: UUID, with_dependents: bool) -> Status[None]:
    deletion.delete(_own(request, kind, key), request.membership, with_dependents)
    return Status(204, None)


def model_dependents(request: Any, model_id: UUID) -> deletion.Dependents:
    """What deleting the model would delete as well."""
    return deletion.dependents(_own(request, Model, model_id))


@submitter_required
def delete_model(request: Any, model_id: UUID, with_dependents: bool = False) -> Status[None]:
    """With its files; when workloads are about it, only `with_dependents`. 409 while a run of it is open."""
    return _delete(request, Model, model_id, with_dependents)


def workload_dependents(request: Any, workload_id: UUID) -> deletion.Dependents:
    """What deleting the workload would delete as well."""
    return deletion.dependents(_own(request, Workload, workload_id))


@submitter_required
def delete_workload(request: Any, workload_id: UUID, with_dependents: bool = False) -> Status[None]:
    """When it has runs, only `with_dependents`. 409 while one of them is open."""
    return _delete(request, Workload, workload_id, with_dependents)


def run_dependents(request: Any, run_id: UUID) -> deletion.Dependents:
    """What deleting the run would delete as well."""
    return deletion.dependents(_own(request, Run, run_id))


@submitter_required
def delete_run(request: Any, run_id: UUID, with_dependents: bool = False) -> Status[None]:
    """With its kept files; when it has reports, only `with_dependents`. 409 while it is open."""
    return _delete(request, Run, run_id, with_dependents)


@submitter_required
def delete_artifact(request: Any, run_id: UUID, stage: Stage, name: str) -> Status[None]:
    """A file that a stage kept. The run's results stay."""
    rows = StoredArtifact.objects.for_user(request.user).select_related("run")
    deletion.delete_file(get_object_or_404(rows, run_id=run_id, stage=stage, name=name))
    return Status(204, None)


def add_routes(intake: Router, runs: Router) -> None:
    """Adds the deletions to the router of models and workloads, and to that of runs."""
    intake.get("/models/{model_id}/dependents", response=deletion.Dependents, tags=["models"], summary="What goes too")(
        model_dependents
    )
    intake.delete("/models/{model_id}", response={204: None}, tags=["models"], summary="Delete a model")(delete_model)
    intake.get(
        "/workloads/{workload_id}/dependents", response=deletion.Dependents, tags=["workloads"], summary="What goes too"
    )(workload_dependents)
    intake.delete("/workloads/{workload_id}", response={204: None}, tags=["workloads"], summary="Delete a workload")(
        delete_workload
    )
    runs.get("/runs/{uuid:run_id}/dependents", response=deletion.Dependents, summary="What goes too")(run_dependents)
    runs.delete("/runs/{uuid:run_id}", response={204: None}, summary="Delete a run")(delete_run)
    runs.delete("/runs/{uuid:run_id}/artifacts/{stage}/{name}", response={204: None}, summary="Delete a file")(
        delete_artifact
    )
