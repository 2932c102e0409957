"""Pages of one run: live while it works, its result, and the files it leaves."""

import functools
import itertools
import re
from typing import Any, cast
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.text import capfirst
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from workbench.accounts.permissions import submitter_required
from workbench.api.sentences import Problem
from workbench.runs import run_queue, services
from workbench.runs.models import Event, Run, StageRun
from workers.charts import decisions, prediction
from workers.documents.stages import Results, Stage
from workers.wording.stages import DOING

READ_EVENTS, SHOWN_EVENTS = 600, 200
_COUNT = re.compile(r": [\d,]+(?=$|[,;])")
"""The number in messages that count, such as `requests measured: 12`."""


def get_run(request: HttpRequest, run_id: UUID) -> Run:
    """The run if it is the caller's organisation's; raises Http404."""
    rows = Run.objects.for_user(request.user).select_related("workload__model", "created_by", "organisation")
    return get_object_or_404(rows, id=run_id)


def _seconds(stage: StageRun) -> float | None:
    if stage.started_at is None:
        return None
    return ((stage.finished_at or timezone.now()) - stage.started_at).total_seconds()


def _log(run: Run) -> list[Event]:
    """The newest events, newest first; of neighbours that count the same thing only the last."""

    def what(event: Event) -> tuple[str, str, str]:
        return event.stage, event.kind, _COUNT.sub("", event.message)

    newest = run.events.order_by("-id")[:READ_EVENTS]
    return [next(same) for _, same in itertools.groupby(newest, key=what)][:SHOWN_EVENTS]


def _live_context(run: Run) -> dict[str, Any]:
    """`known`, `tried` and `refused` are functions, which the template calls only for parts that it has not kept."""
    stages = list(run.stages.defer("result"))
    begun, ended = run.started_at or run.created_at, run.finished_at or timezone.now()

    @functools.cache
    def known() -> Results:
        return services.reading(run)[0]

    return {
        "run": run,
        "stages": [(stage, _seconds(stage), capfirst(DOING.get(cast(Stage, stage.stage), ""))) for stage in stages],
        "left": run_queue.ClassQueue(run.gpu_class).seconds_left(run) if run.is_open else None,
        "done_stages": sum(stage.state == StageRun.State.DONE for stage in stages),
        "measured": any(stage.state == StageRun.State.DONE for stage in stages if stage.stage != "admit"),
        "elapsed": (ended - begun).total_seconds(),
        "events": _log(run),
        "waiting": services.waiting_for(run),
        "place": run_queue.place_of(run),
        "known": known,
        "tried": lambda: len(decisions.tried(known())),
        "refused": lambda: len(decisions.candidates(known())) - len(decisions.tried(known())),
        "predicted_best": lambda: prediction.best(known()),
        "partial": next((stage for stage in stages if stage.partial), None),
    }


@never_cache
@require_safe
def run_page(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """The run as it works; the live part is fetched again by htmx until the run is over."""
    if request.htmx:  # type: ignore[attr-defined]
        run = get_object_or_404(Run.objects.for_user(request.user), id=run_id)
        return render(request, "runs/_live.html", _live_context(run))
    return render(request, "runs/run.html", _live_context(get_run(request, run_id)))


@require_POST
@submitter_required
def cancel(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """Cancels the run and shows it again."""
    run = get_run(request, run_id)
    try:
        services.cancel_run(run, request.user)
    except services.RunError as error:
        messages.error(request, f"Not cancelled: {error}.")
    return redirect("run", run.id)


@require_POST
@submitter_required
def go_on(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """Starts a run of the same workload with the minutes that plans which were left out take."""
    run = get_run(request, run_id)
    try:
        return redirect("run", services.go_on(run, request.user).id)
    except (services.RunError, Problem) as error:
        messages.error(request, f"Not started: {error}.")
    return redirect("run-result", run.id)
