"""The run's state machine. Nothing else changes a run's state.

    queued  -- claim   --> running    a worker holds this attempt's lease
    running -- advance --> queued     the stage is done; the next stage's first attempt waits
    running -- advance --> done       the last stage is done
    running -- retry   --> queued     the attempt died or its lease ran out: attempt + 1
    running -- retry   --> lost       that was the last attempt
    running -- hand_back --> queued   the worker is stopping: attempt + 1, and this one does not count
    running -- fail    --> failed     the stage gave up with a sentence
    queued  -- cancel  --> cancelled
    running -- cancel  --> running    `cancel_requested`: the worker is told with its next heartbeat
    running -- any of advance, retry, hand_back, stop --> cancelled   once `cancel_requested` is set

done, failed, cancelled and lost are final. Every function compares (state, stage, attempt) and swaps in one statement
or under the row's lock; it returns False (or None) and changes nothing when the row has moved on, so that a late
duplicate is harmless. A stage's result is stored by the one attempt that holds the run. Each transition adds an Event.
"""

import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from workbench.intake.models import Workload
from workbench.runs import dispatch, reuse
from workbench.runs.announcing import run_ended
from workbench.runs.models import Event, Run, StageRun, StoredArtifact
from workers.documents.base import Artifact
from workers.documents.stages import OPTIONAL_STAGES, Progress, StageFailure, stages_of
from workers.documents.worker_api import StageKey

MAX_ATTEMPTS = 3


def _lease() -> datetime:
    return timezone.now() + timedelta(seconds=settings.LEASE_SECONDS)


def _rows(key: StageKey, state: Run.State) -> Any:
    return Run.objects.filter(id=key.run_id, stage=key.stage, attempt=key.attempt, state=state)


def _locked(key: StageKey) -> Run | None:
    """The running row of this attempt, locked until the transaction ends."""
    return _rows(key, Run.State.RUNNING).select_for_update().first()


def _record(run_id: uuid.UUID | str, key: StageKey | Run, kind: str, message: str = "", data: Any = None) -> None:
    Event.objects.create(
        run_id=run_id, stage=key.stage, attempt=key.attempt, kind=kind, message=message[:500], data=data
    )


@transaction.atomic
def start(run: Run, earlier: Run | None = None, resumed: Run | None = None) -> None:
    """Save a new run with its stages and queue the first one. The search of an `earlier` run is taken over, or that of
    the `resumed` one goes on, where its figures still count.
    """
    resumes = resumed is not None and reuse.may_resume(run, resumed)
    run.save(force_insert=True)
    Workload.objects.filter(pk=run.workload_id).update(newest_run=run)
    StageRun.objects.bulk_create(
        StageRun(
            run=run, position=position, stage=stage, state=StageRun.State.PENDING if position else StageRun.State.QUEUED
        )
        for position, stage in enumerate(stages_of(run.workload.document.get("load") is not None))
    )
    if earlier is not None:
        _record(run.id, run, "search_taken", reuse.take_over(run, earlier), {"run": str(earlier.id)})
    elif resumed is not None and not resumes:
        _record(run.id, run, "search_anew", reuse.no_longer_counts(resumed), {"run": str(resumed.id)})
    elif resumed is not None:
        _record(run.id, run, reuse.RESUMED, reuse.resume_search(run, resumed), {"run": str(resumed.id)})
    _record(run.id, run, "queued", f"Waiting for a worker of class {run.gpu_class}")
    dispatch.after_commit(run.id)


@transaction.atomic
def claim(key: StageKey, worker: str, gpu_class: str = "", claim_id: str = "") -> Run | None:
    """Give the attempt to `worker`; None when it is not queued, or queued for another GPU class.

    Raises IntegrityError when the claim of this id has taken another run in between.
    """
    now = timezone.now()
    rows = _rows(key, Run.State.QUEUED)
    if gpu_class:
        rows = rows.filter(gpu_class=gpu_class)
    changes = {"state": Run.State.RUNNING, "worker": worker, "claim_id": claim_id or None}
    if rows.update(**changes, heartbeat_at=now, lease_until=_lease()) != 1:
        return None
    Run.objects.filter(id=key.run_id, started_at=None).update(started_at=now)
    StageRun.objects.filter(run_id=key.run_id, stage=key.stage).update(
        state=StageRun.State.RUNNING, attempt=key.attempt, started_at=now, progress=0, message="", partial=None
    )
    _record(key.run_id, key, "claimed", f"{worker} takes {key.stage}, attempt {key.attempt}")
    return Run.objects.select_related("workload").get(id=key.run_id)


def claimed(claim_id: str) -> Run | None:
    """The run that is held by this claim, whose answer the worker may not have got."""
    return Run.objects.select_related("workload").filter(claim_id=claim_id, state=Run.State.RUNNING).first()


def extend_lease(key: StageKey) -> bool | None:
    """Extend the lease; whether a cancel is wanted, or None when the attempt is no longer held."""
    rows = _rows(key, Run.State.RUNNING)
    if rows.update(heartbeat_at=timezone.now(), lease_until=_lease()) != 1:
        return None
    return rows.filter(cancel_requested=True).exists()


@transaction.atomic
def progress(key: StageKey, lines: list[Progress]) -> bool | None:
    """Store what the stage said, and extend the lease; returns what `extend_lease` returns."""
    cancel = extend_lease(key)
    if cancel is None:
        return None
    partial = next((line.partial for line in reversed(lines) if line.partial is not None), None)
    changes: dict[str, Any] = {"progress": lines[-1].fraction, "message": lines[-1].message[:500]}
    if partial is not None:
        changes["partial"] = partial
    StageRun.objects.filter(run_id=key.run_id, stage=key.stage).update(**changes)
    Event.objects.bulk_create(
        Event(
            run_id=key.run_id,
            stage=key.stage,
            attempt=key.attempt,
            kind="progress",
            message=line.message[:500],
            data={"fraction": line.fraction},
        )
        for line in lines
    )
    return cancel


@transaction.atomic
def advance(key: StageKey, result: dict[str, Any], artifacts: Iterable[Artifact] = ()) -> bool:
    """Store the stage's result and queue the next stage, or finish the run."""
    run = _locked(key)
    if run is None:
        return False
    StageRun.objects.filter(run=run, stage=key.stage).update(
        state=StageRun.State.DONE, finished_at=timezone.now(), progress=1, result=result, partial=None
    )
    StoredArtifact.objects.bulk_create(
        StoredArtifact(run=run, organisation_id=run.organisation_id, stage=key.stage, **artifact.model_dump())
        for artifact in {artifact.name: artifact for artifact in artifacts}.values()
    )
    if "verdict" in result:
        run.verdict = result["verdict"]
    same_load = result.get("same_load")
    if same_load and all(same_load[side]["price_basis"] == "stated" for side in ("before", "after")):
        before, after = (same_load[side]["value"] for side in ("usd_before", "usd_after"))
        Run.objects.filter(id=run.id).update(usd_before=before, usd_after=after)
    _record(run.id, key, "stage_done", f"{key.stage} is done")
    following = StageRun.objects.filter(run=run).exclude(state=StageRun.State.DONE).order_by("position").first()
    if run.cancel_requested:
        _finish(run, Run.State.CANCELLED, "Cancelled on request")
    elif following is None:
        _finish(run, Run.State.DONE, "Every stage is done")
    else:
        _queue(run, following.stage, attempt=1)
    return True


@transaction.atomic
def fail(key: StageKey, failure: StageFailure) -> bool:
    """The stage gave up: so does the run, unless it can go on without."""
    run = _locked(key)
    if run is None:
        return False
    if key.stage in OPTIONAL_STAGES:
        return advance(key, {"sentence": failure.sentence})
    _end_stage(run, failure.sentence)
    _finish(run, Run.State.FAILED, failure.sentence, failure)
    return True


@transaction.atomic
def retry(key: StageKey, reason: str, stale_since: datetime | None = None) -> bool:
    """The attempt died: queue the next one, up to MAX_ATTEMPTS.

    `stale_since` is the sweep's: the lease must have ended before it, or the worker has spoken in the meantime.
    """
    run = _locked(key)
    if run is None or (stale_since is not None and run.lease_until is not None and run.lease_until >= stale_since):
        return False
    tried = run.attempt - Event.objects.filter(run_id=run.id, stage=run.stage, kind="handed_back").count()
    if run.cancel_requested:
        _finish_cancelled(run)
    elif tried >= MAX_ATTEMPTS:
        sentence = f"The {run.stage} stage was tried {tried} times; the last time {reason}."
        if key.stage in OPTIONAL_STAGES:
            return advance(key, {"sentence": sentence})
        _end_stage(run, sentence)
        _finish(run, Run.State.LOST, sentence, StageFailure(sentence=sentence))
    else:
        _record(run.id, key, "retried", f"Attempt {key.attempt} at {key.stage} ended: {reason}")
        _queue(run, run.stage, attempt=run.attempt + 1)
    return True


@transaction.atomic
def hand_back(key: StageKey) -> bool:
    """The worker is stopping: queue the stage again. Its attempt gets a new number, but does not count."""
    run = _locked(key)
    if run is None:
        return False
    if run.cancel_requested:
        return stop(key)
    _record(run.id, key, "handed_back", f"{run.worker} is stopping; {key.stage} waits for another worker")
    _queue(run, run.stage, attempt=run.attempt + 1)
    return True


def _finish_cancelled(run: Run) -> None:
    _end_stage(run, "cancelled")
    _finish(run, Run.State.CANCELLED, "Cancelled on request")


@transaction.atomic
def cancel(run_id: uuid.UUID, who: str) -> bool:
    """Cancel at once what waits, and ask the worker of what runs; False when the run is over."""
    run = Run.objects.select_for_update().filter(id=run_id, state__in=Run.OPEN).first()
    if run is None:
        return False
    if not run.cancel_requested:
        Run.objects.filter(id=run.id).update(cancel_requested=True)
        _record(run.id, run, "cancel_requested", f"{who} cancelled the run")
    if run.state == Run.State.QUEUED:
        _finish_cancelled(run)
    return True


@transaction.atomic
def stop(key: StageKey) -> bool:
    """The worker has stopped the stage because a cancel was requested."""
    run = _locked(key)
    if run is None or not run.cancel_requested:
        return False
    _finish_cancelled(run)
    return True


@transaction.atomic
def reroute(run: Run, gpu_class: str) -> bool:
    """Let another GPU class take a run that has not begun."""
    rows = Run.objects.filter(id=run.id, state=Run.State.QUEUED, started_at=None, gpu_class=run.gpu_class)
    if rows.update(gpu_class=gpu_class, published_at=None) != 1:
        return False
    _record(run.id, run, "rerouted", f"No worker of class {run.gpu_class} is there; {gpu_class} takes the run")
    dispatch.after_commit(run.id)
    return True


def _queue(run: Run, stage: str, attempt: int) -> None:
    Run.objects.filter(id=run.id).update(
        state=Run.State.QUEUED,
        stage=stage,
        attempt=attempt,
        verdict=run.verdict,
        worker="",
        claim_id=None,
        lease_until=None,
        published_at=None,
    )
    StageRun.objects.filter(run=run, stage=stage).update(state=StageRun.State.QUEUED, attempt=attempt, progress=0)
    dispatch.after_commit(run.id)


def _end_stage(run: Run, message: str) -> None:
    StageRun.objects.filter(run=run, stage=run.stage).exclude(state=StageRun.State.DONE).update(
        state=StageRun.State.FAILED, finished_at=timezone.now(), message=message[:500]
    )


def _finish(run: Run, state: Run.State, message: str, failure: StageFailure | None = None) -> None:
    Run.objects.filter(id=run.id).update(
        state=state,
        verdict=run.verdict,
        worker="",
        claim_id=None,
        lease_until=None,
        finished_at=timezone.now(),
        error=failure.model_dump() if failure else None,
    )
    _record(run.id, run, state.value, message)
    run_ended(run, state, message)
