"""The order in which runs get a GPU of their class.

1. A run that has begun goes before one that has not: the oldest run is finished first.
2. Of the others, the organisation with the fewest begun and open runs is next; among equals the one whose last run
   began longest ago.
3. Within an organisation, the run that was submitted first.

A worker's message only says that there is work for its class. The claim takes the run that is next.
"""

from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple

from django.db import IntegrityError
from django.db.models import Count, F, Max, Min, Q, QuerySet
from django.utils import timezone

from workbench.intake.services import placement
from workbench.runs import state
from workbench.runs.models import Run
from workers.documents.stages import GPU_STAGES
from workers.documents.worker_api import StageKey

LAST_RUNS = 20
"""The estimate goes by as many runs of the class that ended last."""
NEVER = datetime.min.replace(tzinfo=UTC)


class QueuePosition(NamedTuple):
    """A run's place in the queue of its class, from 1 on. `seconds` until it begins is computed; None when no run of
    the class has ended, or when nothing serves the class."""

    position: int
    length: int
    seconds: float | None


class _Share(NamedTuple):
    """What an organisation has in the queue: `begun` open runs, and `waiting` ones. Fewer `begun` go first."""

    begun: int
    last_begin: datetime
    oldest: datetime
    organisation: Any
    waiting: int


def claim(message: StageKey, worker: str, gpu_class: str, claim_id: str = "") -> Run | None:
    """Give the worker the run that is next in its class, whichever run its message names.

    Without a class only the attempt that the message names is to be had, and never one of a stage that is the ledger's:
    what that writes is believed. None when there is nothing. The same `claim_id` again, of a worker that got no answer,
    gets the same run.
    """
    if message.stage not in GPU_STAGES:
        return None
    claimed = state.claimed(claim_id) if claim_id else None
    if claimed is not None:
        return claimed
    try:
        if not gpu_class:
            return state.claim(message, worker, claim_id=claim_id)
        while (run := next_run(gpu_class)) is not None:
            claimed = state.claim(key_of(run), worker, gpu_class, claim_id)
            if claimed is not None:
                return claimed  # otherwise another worker was quicker
    except IntegrityError:  # the same claim was still being answered
        return state.claimed(claim_id)
    return None


def claim_following(run: Run, claim_id: str) -> Run | None:
    """Give the worker that held the run its next stage, for which no message is sent then.

    None where the run has no further stage for a GPU, or another run of the class goes before it.
    """
    following = next_run(run.gpu_class)
    if following is None or following.id != run.id:
        return None
    return state.claim(key_of(following), run.worker, run.gpu_class, claim_id)


def key_of(run: Run) -> StageKey:
    """The attempt that the run is at."""
    return StageKey(run_id=str(run.id), stage=run.stage, attempt=run.attempt)  # type: ignore[arg-type]


def next_run(gpu_class: str) -> Run | None:
    """The run that a free worker of the class takes."""
    waiting = _waiting(gpu_class)
    begun = waiting.exclude(started_at=None).order_by("started_at", "created_at").first()
    shares = [] if begun else _shares(gpu_class)
    if not shares:
        return begun
    first = min(shares)
    return waiting.filter(started_at=None, organisation=first.organisation).order_by("created_at", "id").first()


def place_of(run: Run) -> QueuePosition | None:
    """Where a run that waits for its first stage stands; None for any other run."""
    return ClassQueue(run.gpu_class).place_of(run)


class ClassQueue:
    """The queue of a GPU class at the moment that it is first asked. Many runs' places cost few queries."""

    def __init__(self, gpu_class: str) -> None:
        self.gpu_class = gpu_class
        self._queued: dict[Any, list[Any]] = {}

    def place_of(self, run: Run) -> QueuePosition | None:
        """Where a run of the class that waits for its first stage stands; None for any other run."""
        if run.state != Run.State.QUEUED or run.started_at is not None:
            return None
        own = next((share for share in self._shares if share.organisation == run.organisation_id), None)
        if own is None or run.id not in (queue := self._queue_of(run.organisation_id)):
            return None
        position = own.begun + queue.index(run.id)
        ahead = self._begun + position - own.begun
        for share in self._shares:
            if share is not own:
                ahead += min(share.waiting, max(0, position - share.begun + (share[1:4] < own[1:4])))
        length = self._begun + sum(share.waiting for share in self._shares)
        return QueuePosition(ahead + 1, length, self._seconds_until(ahead))

    def seconds_left(self, run: Run) -> float | None:
        """Computed seconds until a run of the class ends, by how long the last ones took; 0 for one that took longer.

        None where no run of the class has ended, or where nothing serves it.
        """
        typical = self.typical_seconds
        if typical is None:
            return None
        if run.started_at is not None:
            return max(0.0, typical - (timezone.now() - run.started_at).total_seconds())
        position = self.place_of(run) if self.workers else None
        return None if position is None or position.seconds is None else position.seconds + typical

    @cached_property
    def typical_seconds(self) -> float | None:
        """How long the last runs of the class took on average; None when none has ended."""
        ended = Run.objects.filter(gpu_class=self.gpu_class, state=Run.State.DONE).exclude(started_at=None)
        took = [
            (finished - started).total_seconds()
            for started, finished in ended.filter(finished_at__isnull=False)
            .order_by(F("finished_at").desc())
            .values_list("started_at", "finished_at")[:LAST_RUNS]
            if started and finished
        ]
        return sum(took) / len(took) if took else None

    @cached_property
    def _shares(self) -> list[_Share]:
        return _shares(self.gpu_class)

    @cached_property
    def _begun(self) -> int:
        return _waiting(self.gpu_class).exclude(started_at=None).count()

    @cached_property
    def workers(self) -> int:
        """How many live workers serve the class."""
        return placement.alive_workers(self.gpu_class)

    @cached_property
    def _running(self) -> int:
        """Runs that workers of the class hold."""
        return Run.objects.filter(gpu_class=self.gpu_class, state=Run.State.RUNNING, stage__in=GPU_STAGES).count()

    def _queue_of(self, organisation: Any) -> list[Any]:
        """The runs of an organisation that wait for their first stage, first one first."""
        if organisation not in self._queued:
            rows = _waiting(self.gpu_class).filter(started_at=None, organisation=organisation)
            self._queued[organisation] = list(rows.order_by("created_at", "id").values_list("id", flat=True))
        return self._queued[organisation]

    def _seconds_until(self, ahead: int) -> float | None:
        """Computed: as long as the last runs of the class took, for those ahead and half of those that run now."""
        if self.typical_seconds is None or not self.workers:
            return None
        return (ahead + min(self._running, self.workers) / 2) * self.typical_seconds / self.workers


def _waiting(gpu_class: str) -> QuerySet[Run]:
    return Run.objects.filter(state=Run.State.QUEUED, gpu_class=gpu_class, stage__in=GPU_STAGES)


def _shares(gpu_class: str) -> list[_Share]:
    """One for each organisation that has a run which waits for its first stage."""
    waiting = _waiting(gpu_class).filter(started_at=None).values("organisation").order_by()
    by_organisation = {
        row["organisation"]: row for row in waiting.annotate(count=Count("id"), oldest=Min("created_at"))
    }
    begun = Run.objects.filter(gpu_class=gpu_class, organisation__in=by_organisation).exclude(started_at=None)
    counted = begun.values("organisation").order_by().annotate(
        open=Count("id", filter=Q(state__in=Run.OPEN)), last=Max("started_at")
    )  # fmt: skip
    open_runs = {row["organisation"]: (row["open"], row["last"]) for row in counted}
    return [
        _Share(*open_runs.get(organisation, (0, NEVER)), row["oldest"], organisation, row["count"])
        for organisation, row in by_organisation.items()
    ]
