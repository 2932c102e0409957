"""Deleting models, workloads, runs and kept files, with everything that depends on them."""

from datetime import datetime
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Sum
from django.utils import timezone
from ninja import Field, Schema

from workbench.accounts.permissions import can_admin
from workbench.api.sentences import Problem
from workbench.audit.models import Action
from workbench.audit.services import record
from workbench.intake.models import Model, Recording, StoredFile, Workload
from workbench.intake.services import recordings
from workbench.runs import garbage
from workbench.runs.models import Run, StoredArtifact

Deletable = Model | Workload | Run
DELETED = {Model: Action.MODEL_DELETED, Workload: Action.WORKLOAD_DELETED, Run: Action.RUN_DELETED}


class Dependents(Schema):
    """What is deleted together with a model, a workload or a run, as counts; files are those that runs kept."""

    workloads: int = 0
    runs: int = 0
    open_runs: int = Field(0, description="runs that are not over; while there are any, nothing is deleted")
    reports: int = 0
    published_reports: int = Field(0, description="of the reports; with any, only an admin may delete")
    files: int = 0
    file_bytes: int = 0
    recordings: int = Field(0, description="of traffic, that no other workload names")

    @property
    def words(self) -> str:
        """Such as `2 workloads, 5 runs and 1 report`; empty when nothing depends on the target but its own files."""
        counted = {"workload": self.workloads, "run": self.runs, "report": self.reports}
        parts = [f"{count:,} {name}{'s' if count > 1 else ''}" for name, count in counted.items() if count]
        return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def dependents(target: Deletable) -> Dependents:
    """Everything that is deleted with it."""
    runs = _runs(target)
    files = StoredArtifact.objects.filter(run__in=runs).aggregate(bytes=Sum("size"))
    reports = runs.model._meta.get_field("reports").related_model.objects.filter(run__in=runs)
    return Dependents(
        workloads=target.workloads.count() if isinstance(target, Model) else 0,
        runs=0 if isinstance(target, Run) else runs.count(),
        open_runs=runs.filter(state__in=Run.OPEN).count(),
        reports=reports.count(),
        published_reports=reports.filter(state="published").count(),
        files=StoredArtifact.objects.filter(run__in=runs).count(),
        file_bytes=files["bytes"] or 0,
        recordings=len(_recordings(target)),
    )


def _runs(target: Deletable) -> Any:
    if isinstance(target, Run):
        return Run.objects.filter(pk=target.pk)
    return Run.objects.filter(**{"workload__model" if isinstance(target, Model) else "workload": target})


def delete(target: Deletable, membership: Any, with_dependents: bool) -> None:
    """Deletes it with everything that depends on it, and gives back the space of what nobody else refers to.

    Raises Problem 409 when a run is open, or when something depends on it and `with_dependents` is not set, and
    PermissionDenied when a report is published and the member is no admin.
    """
    with transaction.atomic():
        list(_runs(target).select_for_update().values_list("pk"))
        affected = dependents(target)
        _check(affected, membership, with_dependents)
        record(DELETED[type(target)], target.organisation, target, **affected.model_dump(exclude_defaults=True))
        hashes, named = _hashes(target), _recordings(target)
        _runs(target).delete()
        if isinstance(target, Run):
            newest = Run.objects.filter(workload=target.workload_id).first()
            Workload.objects.filter(pk=target.workload_id).update(newest_run=newest)
        if isinstance(target, Model):
            target.workloads.all().delete()
        if not isinstance(target, Run):
            target.delete()
        hashes |= recordings.release(Recording.objects.filter(pk__in=named))
    garbage.release(hashes)


def _recordings(target: Deletable) -> list[Any]:
    """The keys of the recordings that go with it: its workloads name them, and no other does."""
    if isinstance(target, Run):
        return []
    workloads = target.workloads.all() if isinstance(target, Model) else Workload.objects.filter(pk=target.pk)
    others = Workload.objects.exclude(pk__in=workloads.values("pk")).exclude(recording=None)
    named = Recording.objects.filter(workloads__in=workloads).exclude(pk__in=others.values("recording"))
    return list(named.distinct().values_list("pk", flat=True))


def _check(affected: Dependents, membership: Any, with_dependents: bool) -> None:
    if affected.open_runs:
        raise _conflict(f"{affected.open_runs:,} of its runs are not over; cancel them first")
    if affected.published_reports and not can_admin(membership):
        raise PermissionDenied("A published report depends on it; only an admin of the organisation may delete it.")
    if affected.words and not with_dependents:
        raise _conflict(f"{affected.words} would be deleted with it; confirm that by with_dependents=true")


def _conflict(reason: str) -> Problem:
    return Problem(409, reason, [{"field": "with_dependents", "reason": reason}])


def _hashes(target: Deletable) -> dict[str, datetime]:
    """The contents that it and its dependents refer to, each with a time by which that reference was there."""
    now = timezone.now()
    artifacts = StoredArtifact.objects.filter(run__in=_runs(target)).values_list("sha256", "run__finished_at")
    hashes = {sha256: finished or now for sha256, finished in artifacts}
    if isinstance(target, Model):
        hashes |= dict.fromkeys(
            StoredFile.objects.filter(model=target).values_list("sha256", flat=True), target.created_at
        )
    return hashes


def delete_file(artifact: StoredArtifact) -> None:
    """Deletes a file that a stage kept. Raises Problem 409 while its run is open."""
    if artifact.run.is_open:
        raise _conflict("its run is not over; cancel it first")
    with transaction.atomic():
        record(Action.FILE_DELETED, artifact.organisation, artifact, run=str(artifact.run_id))
        artifact.delete()
    garbage.release({artifact.sha256: artifact.run.finished_at or timezone.now()})
