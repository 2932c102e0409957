"""Pages of one run: live while it works, its result, and the files it leaves."""

import functools
import itertools
import json
import re
from typing import Any, NamedTuple
from uuid import UUID

from django.contrib import messages
from django.core.cache import caches
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.safestring import mark_safe
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from workbench.accounts.permissions import submitter_required
from workbench.api.sentences import Problem
from workbench.intake.blobs import path_of
from workbench.runs import line, result_page, services
from workbench.runs.models import Event, Run, StageRun, StoredArtifact
from workers.charts import decisions
from workers.documents.base import Artifact
from workers.documents.stages import STAGES, Results
from workers.documents.timeline import LaneSummary, RequestTimeline

REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; sandbox"
READ_EVENTS, SHOWN_EVENTS = 600, 200
_COUNT = re.compile(r": [\d,]+(?=$|[,;])")
"""The number in messages that count, such as `requests measured: 12`."""
TIMELINES = {"before": ("profile", "timeline.json.gz"), "after": ("verify", "plan-timeline.json.gz")}
"""The stage that keeps the timeline of a traced request, and the file's name."""


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
        "stages": [(stage, _seconds(stage)) for stage in stages],
        "done_stages": sum(stage.state == StageRun.State.DONE for stage in stages),
        "measured": any(stage.state == StageRun.State.DONE for stage in stages if stage.stage != "admit"),
        "elapsed": (ended - begun).total_seconds(),
        "events": _log(run),
        "waiting": services.waiting_for(run),
        "place": line.place_of(run),
        "known": known,
        "tried": lambda: len(decisions.tried(known())),
        "refused": lambda: len(decisions.candidates(known())) - len(decisions.tried(known())),
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


@require_safe
def result(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """The results, the verdict first. For an unfinished run the page shows what is known so far."""
    run = get_run(request, run_id)
    found = _kept_body(run) if run.state == Run.State.DONE else _body(run)
    context = {
        "run": run,
        "body": found.html,
        "stages": found.stages,
        "unreadable": found.unreadable,
        "minutes_wanted": services.minutes_wanted(run),
        "artifacts": run.artifacts.all(),
        "reports": run.reports.defer("snapshot"),
    }
    return render(request, "runs/result.html", context)


class Body(NamedTuple):
    """The part of a result's page that is made of stored documents: `html`, the `stages` whose results are known, and
    a sentence about the first document that cannot be read, or ""."""

    html: str
    stages: list[str]
    unreadable: str


def _kept_body(run: Run) -> Body:
    """The body of a run that is done, which never changes; it is kept for some minutes."""
    kept = caches["results"].get(str(run.pk))
    if kept is not None:
        html, stages = kept
        return Body(mark_safe(html), stages, "")
    found = _body(run)
    if not found.unreadable:
        caches["results"].set(str(run.pk), [found.html, found.stages])
    return found


def _body(run: Run) -> Body:
    known, unreadable_result = services.reading(run)
    document, unreadable = run.workload.reading
    manifest, unreadable_model = run.workload.model.reading
    context = result_page.context(document, manifest, known, services.stage_times(run))
    context |= {
        "run": run,
        "no_verdict": services.lacks(run, "verdict"),
        "timelines": _timelines(known, context["compared_with"]),
    }
    html = render_to_string("runs/_result.html", context)
    stages: list[str] = [stage for stage in STAGES if getattr(known, stage) is not None]
    return Body(html, stages, unreadable or unreadable_model or unreadable_result)


class _Timeline(NamedTuple):
    """The timeline of a traced request, before or after, and the trace that it was made of."""

    side: str
    title: str
    shown: RequestTimeline
    trace: Artifact | None

    @property
    def lanes(self) -> list[tuple[LaneSummary, float | None]]:
        """Each lane, and the share of the timeline in which it is busy."""
        whole = self.shown.duration_ms
        return [(lane, lane.busy_ms / whole if whole else None) for lane in self.shown.lanes]


def _timelines(known: Results, compared_with: str) -> list[_Timeline]:
    before, left = known.profile, known.verify.profile if known.verify else None
    found = []
    if before and before.timeline:
        found.append(_Timeline("before", compared_with.capitalize(), before.timeline, before.trace))
    if left and left.timeline:
        found.append(_Timeline("after", "After, the verified plan", left.timeline, left.trace))
    return found


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
    found = known.verify or known.compose
    if found is None:
        return _lacking(request, run, "plan")
    response = HttpResponse(json.dumps(found.plan, indent=2) + "\n", content_type="application/json")
    response["Content-Disposition"] = 'attachment; filename="plan.json"'
    return response


@require_safe
def report_file(request: HttpRequest, run_id: UUID) -> HttpResponse | FileResponse:
    """The self-contained report; `?download` saves it. It may not run scripts."""
    run = get_run(request, run_id)
    return report_response(run, download="download" in request.GET) or _lacking(request, run, "report")


def _lacking(request: HttpRequest, run: Run, what: str) -> HttpResponse:
    return render(request, "404.html", {"reason": services.lacks(run, what), "run": run}, status=404)


def report_response(run: Run, download: bool) -> FileResponse | None:
    """The report's file under a policy that forbids scripts; None before it is written."""
    row = StoredArtifact.objects.filter(run=run, stage="report", name="report.html").first()
    if row is None:
        return None
    response = FileResponse(path_of(row.sha256).open("rb"), content_type="text/html; charset=utf-8")
    response["Content-Security-Policy"] = REPORT_POLICY
    response["Content-Disposition"] = f'{"attachment" if download else "inline"}; filename="report-{run.id}.html"'
    return response


@require_safe
def artifact(request: HttpRequest, run_id: UUID, sha256: str) -> FileResponse:
    """A file that a stage of this run kept, as a download."""
    row = get_run(request, run_id).artifacts.filter(sha256=sha256).first()
    if row is None or not path_of(row.sha256).exists():
        raise Http404("The run kept no such file.")
    return FileResponse(
        path_of(row.sha256).open("rb"), as_attachment=True, filename=row.name, content_type=row.media_type
    )
