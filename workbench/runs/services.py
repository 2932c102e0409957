"""Starts, cancels and reads runs."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import pydantic
from django.conf import settings
from django.db import transaction
from django.db.models import Count, Q

from workbench.api import quota
from workbench.api.sentences import sentence, sentences
from workbench.intake.models import Unreadable, Workload
from workbench.intake.services import placement
from workbench.intake.services.ceilings import known_ceilings
from workbench.intake.services.workloads import create_workload
from workbench.prices.services import price_book
from workbench.runs import reuse, state
from workbench.runs.models import Run, StageRun
from workers.documents import budget
from workers.documents.base import Document
from workers.documents.gpu_class import gpus_of
from workers.documents.stages import Results, Stage, StageInput
from workers.documents.worker_api import StageKey
from workers.documents.workload import Workload as WorkloadDocument


class StageTime(Document):
    """When a stage ran, in seconds since the run started."""

    stage: str
    start_s: float
    duration_s: float


def times_since(origin: datetime, spans: Iterable[tuple[str, datetime, datetime]]) -> list[StageTime]:
    """The times of stages, each with its begin and its end, in seconds since `origin`."""
    return [
        StageTime(stage=stage, start_s=(begin - origin).total_seconds(), duration_s=(end - begin).total_seconds())
        for stage, begin, end in spans
    ]


ENDED = {"done": "ended", "failed": "failed", "cancelled": "was cancelled", "lost": "was lost"}


class RunError(Exception):
    """A run cannot be started or changed; the message is a sentence, `field` the input it is about."""

    def __init__(self, sentence: str, field: str = "") -> None:
        super().__init__(sentence)
        self.field = field


def create_run(
    workload: Workload,
    user: Any,
    gpu_class: str | None = None,
    search_again: bool = False,
    resumed: Run | None = None,
) -> Run:
    """Start a run of an intake Workload. Unless it is to `search_again`, it takes over the search of an earlier run.

    Raises RunError when it cannot be read, does not allow `gpu_class` or promises what no chip of its class can keep,
    and Problem 409 when there are too many runs.
    """
    try:
        document, manifest = workload.sla, workload.model.facts
    except Unreadable as error:
        raise RunError(str(error), "workload") from error
    _check_counts(workload.organisation)
    allowed = document.constraints.gpu_classes
    if gpu_class and gpu_class not in allowed:
        raise RunError(f"the workload allows {', '.join(allowed)}, not {gpu_class}", "gpu_class")
    try:
        placement.check_fits(document, manifest, gpu_class)
    except placement.TooLarge as error:
        raise RunError(str(error), "model") from error
    available = placement.known(workload.organisation, document)
    chosen = gpu_class or placement.choose_class(document, manifest, available.ceilings)
    if refused := placement.refusal(document, manifest, chosen, available):
        raise RunError(refused, "gpu_class")
    run = Run(
        organisation=workload.organisation,
        workload=workload,
        gpu_class=chosen,
        gpu_class_fixed=bool(gpu_class),
        created_by=user,
    )
    earlier = None if search_again or resumed else reuse.earlier_search(run)
    state.start(run, earlier, resumed)
    return run


def minutes_wanted(run: Run) -> float | None:
    """The minutes with which the run would have tried the plans that it left out for time; None for none."""
    verified = StageRun.objects.filter(run=run, stage="verify", state=StageRun.State.DONE)
    minutes = verified.values_list("result__minutes_wanted", flat=True).first()
    return float(minutes) if minutes else None


def go_on(run: Run, user: Any) -> Run:
    """Start a run of the same workload with the minutes that `minutes_wanted` says, on the same class of GPU. It
    resumes the search of this one where nothing has changed since, without the plans that verify refused.

    Raises RunError where the run is not over or left out nothing, and as `create_run`.
    """
    if run.is_open:
        raise RunError("the run is not over", "state")
    minutes = minutes_wanted(run)
    if minutes is None:
        raise RunError("the run left out no plan", "state")
    try:
        document = run.workload.sla
    except Unreadable as error:
        raise RunError(str(error), "workload") from error
    constraints = document.constraints.model_copy(update={"minutes": minutes})
    longer = document.model_copy(update={"constraints": constraints})
    with transaction.atomic():
        workload = create_workload(run.organisation, user, longer, run.workload)
        return create_run(workload, user, run.gpu_class if run.gpu_class_fixed else None, resumed=run)


def _check_counts(organisation: Any) -> None:
    """Raises Problem 409 when the organisation has as many runs or open runs as it may have, or 413 for its bytes."""
    runs = Run.objects.filter(organisation=organisation)
    there = runs.aggregate(all=Count("pk"), open=Count("pk", filter=Q(state__in=Run.OPEN)))
    remedy = "wait until one has ended, or cancel one"
    quota.check_bytes(organisation)
    quota.check_count(there["open"], settings.ORGANISATION_OPEN_RUNS, "open runs", remedy)
    quota.check_count(there["all"], settings.ORGANISATION_RUNS, "runs", "delete some that are not needed any more")


def cancel_run(run: Run, user: Any) -> Run:
    """Cancel a run that is not over, at once or as soon as its worker hears of it. Raises RunError when it is over."""
    if not state.cancel(run.id, getattr(user, "email", "") or "A member"):
        run.refresh_from_db()
        raise RunError(f"the run is over: it is {run.state}", "state")
    run.refresh_from_db()
    return run


def reading(run: Run) -> tuple[Results, str]:
    """The readable results of the finished stages, and the sentence about the first unreadable one or ""."""
    done = StageRun.objects.filter(run=run, state=StageRun.State.DONE)
    return reading_of(done.values_list("stage", "result"))


def reading_of(rows: Iterable[tuple[str, Any]]) -> tuple[Results, str]:
    """As `reading`, of rows that are at hand: names of stages that are done, and their stored results."""
    results, unreadable = Results(), ""
    for stage, result in rows:
        try:
            setattr(results, stage, getattr(Results.model_validate({stage: result}), stage))
        except pydantic.ValidationError as error:
            reason = sentence(sentences(error)[0])
            unreadable = unreadable or f"This version cannot read the stored result: {reason}"
    return results, unreadable


def results(run: Run) -> Results:
    """The results of the stages that are done. Raises Unreadable."""
    known, unreadable = reading(run)
    if unreadable:
        raise Unreadable(unreadable)
    return known


def stage_times(run: Run) -> list[StageTime]:
    """When each finished stage ran."""
    spans = [
        (row.stage, row.started_at, row.finished_at)
        for row in run.stages.defer("result", "partial")
        if row.started_at is not None and row.finished_at is not None
    ]
    origin = min((started for _, started, _ in spans), default=run.created_at)
    return times_since(origin, spans)


def headlines(runs: Iterable[UUID]) -> Mapping[Any, str]:
    """The headline of each run that has a report: `TTF64 p50 44.7 ms (limit 100 ms), 14.89x faster …`, no verdict."""
    rows = StageRun.objects.filter(run__in=list(runs), stage="report", state=StageRun.State.DONE)
    return {run: (headline or "").partition(": ")[2] for run, headline in rows.values_list("run", "result__headline")}


def stage_input(run: Run, key: StageKey) -> StageInput:
    """The document that the stage's process gets. Raises Unreadable."""
    workload, recording = run.workload.sla, run.workload.recording
    classes = [run.gpu_class, *workload.constraints.gpu_classes]
    stage: Stage = key.stage
    results_so_far = results(run)
    gpu_uuid = results_so_far.baseline.environment.gpu_uuid if results_so_far.baseline else ""
    return StageInput(
        run_id=str(run.id),
        stage=stage,
        attempt=key.attempt,
        gpu_class=run.gpu_class,
        workload=workload,
        model=run.workload.model.facts,
        prices=price_book(run.organisation),
        results=results_so_far,
        ceilings=known_ceilings(run.organisation, classes, gpu_uuid) if stage in ("admit", "profile") else {},
        seconds_left=seconds_left(run, stage, workload, results_so_far),
        taken={span.stage: span.duration_s for span in stage_times(run) if span.stage != stage},
        organisation=str(run.organisation_id),
        recording=recording.document if recording else None,
        trials_before=reuse.trials_before(run) if stage == "compose" else [],
    )


def seconds_left(run: Run, stage: Stage, document: WorkloadDocument, results: Results) -> float:
    """Seconds for `stage`, by what the run's earlier stages took and found; waiting in a queue is not counted."""
    return budget.seconds_granted(stage, document, sum(span.duration_s for span in stage_times(run)), results)


def lacks(run: Run, name: str) -> str:
    """A sentence that says why the run has no plan or report (`name`): it is not made yet, or the run ended before."""
    if run.is_open:
        return f"The run has no {name} yet: it is in the {run.stage} stage."
    reason = (run.error or {}).get("sentence", "")
    return f"The run ended without a {name}: it {ENDED[run.state]} in the {run.stage} stage. {reason}".strip()


def waiting_for(run: Run) -> str:
    """A sentence that says why a queued run waits; empty when a worker of its class is alive."""
    live = sorted(placement.alive())
    if run.state != Run.State.QUEUED or run.gpu_class in live:
        return ""
    sentence = f"Waiting for a worker of class {run.gpu_class}."
    document, manifest = run.workload.reading[0], run.workload.model.reading[0]
    if document is None or manifest is None or run.gpu_class_fixed or gpus_of(run.gpu_class) == 1:
        return f"{sentence} None is running; workers of class {', '.join(live)} are." if live else sentence
    available = placement.known(run.organisation, document)
    return f"{sentence} {placement.why_several(document, manifest, run.gpu_class, available)}".rstrip()
