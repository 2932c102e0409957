"""Pages of one run: live while it works, its result, the files it leaves, its labels, and its deletion."""

import functools
import itertools
import json
import re
from typing import Any, cast
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.text import capfirst
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from workbench.accounts.permissions import submitter_required
from workbench.api.sentences import Problem
from workbench.intake import blobs
from workbench.intake.models import LONGEST_PROJECT, Model, Workload
from workbench.intake.views.workload_form import own_workload
from workbench.runs import deletion, report_files, run_queue, services, tags
from workbench.runs.models import Event, Run, StageRun, StoredArtifact
from workbench.runs.tags import LONGEST_TAG, MAX_TAGS
from workbench.short_text import ShortTextField
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
        "tried": lambda: len(decisions.tried_candidates(known())),
        "refused": lambda: len(decisions.candidates(known())) - len(decisions.tried_candidates(known())),
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


TIMELINES = {"before": ("profile", "timeline.json.gz"), "after": ("verify", "plan-timeline.json.gz")}
"""The stage that keeps the timeline of a traced request, and the file's name."""


@require_safe
def timeline(request: HttpRequest, run_id: UUID, side: str) -> FileResponse:
    """The lanes of a traced request as `workers/traces/timeline.py` writes them; `side` is before or after."""
    stage, name = TIMELINES[side]
    row = get_run(request, run_id).artifacts.filter(stage=stage, name=name).first()
    options = {"content_type": "application/json", "headers": {"Content-Encoding": "gzip"}}
    return blobs.response(row, "The run kept no such timeline.", **options)


@require_safe
def plan(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """plan.json: the verified plan, or the composed one while the run is not verified."""
    run = get_run(request, run_id)
    results, _ = services.reading(run)
    stage = results.verify or results.compose
    if stage is None:
        return lacking(request, run, "plan")
    response = HttpResponse(json.dumps(stage.plan, indent=2) + "\n", content_type="application/json")
    response["Content-Disposition"] = 'attachment; filename="plan.json"'
    return response


@require_safe
def report_file(request: HttpRequest, run_id: UUID, file: str) -> HttpResponse:
    """The draft that the run wrote, or a file made of it (`report_files.MEDIA_TYPES`); `?download` saves the page."""
    run = get_run(request, run_id)
    return report_response(run, file, "download" in request.GET) or lacking(request, run, "report")


def lacking(request: HttpRequest, run: Run, name: str) -> HttpResponse:
    """The page that says why the run has no plan, report or price (`name`)."""
    return render(request, "404.html", {"reason": services.lacks(run, name), "run": run}, status=404)


def report_response(run: Run, file: str, download: bool) -> HttpResponse | None:
    """A file of the report; None before it is written. Raises Http404 for a file of another name."""
    row = StoredArtifact.objects.filter(run=run, stage="report", name="report.html").first()
    if row is None:
        return None
    if file not in report_files.MEDIA_TYPES:
        raise Http404("A report has no such file.")
    page = blobs.path_of(row.sha256).read_text("utf-8")
    return report_files.respond(page, file, f"report-{run.id}", download, run.organisation_id)


@require_safe
def artifact(request: HttpRequest, run_id: UUID, sha256: str) -> FileResponse:
    """A file that a stage of this run kept, as a download; of what kind it is, only the stage says."""
    row = get_run(request, run_id).artifacts.filter(sha256=sha256).first()
    return blobs.response(row, "The run kept no such file.", as_attachment=True, filename=row.name if row else "")


class ProjectForm(forms.Form):
    """The project of a workload; none takes it out of its project."""

    project = ShortTextField(max_length=LONGEST_PROJECT, required=False)


class TagsForm(forms.Form):
    """The tags of a run, between commas."""

    tags = ShortTextField(max_length=500, required=False)

    def clean_tags(self) -> list[str]:
        """Raises ValidationError for too many or too long ones."""
        names = list(dict.fromkeys(filter(None, (name.strip() for name in self.cleaned_data["tags"].split(",")))))
        if len(names) > MAX_TAGS:
            raise ValidationError(f"A run has at most {MAX_TAGS} tags; these are {len(names)}.")
        if longest := next((name for name in names if len(name) > LONGEST_TAG), ""):
            raise ValidationError(
                f"“{longest[:LONGEST_TAG]}…” is longer than {LONGEST_TAG} characters. Put commas between tags."
            )
        return names


@require_POST
@submitter_required
def set_project(request: HttpRequest, workload_id: UUID) -> HttpResponse:
    """Puts the workload into a project, or out of its project."""
    workload, form = own_workload(request, workload_id), ProjectForm(request.POST)
    if form.is_valid():
        workload.project = form.cleaned_data["project"]
        workload.save(update_fields=["project"])
    return _answer(request, form, "workload", workload_id)


@require_POST
@submitter_required
def set_tags(request: Any, run_id: UUID) -> HttpResponse:
    """Puts these tags on the run, and no others."""
    run, form = get_run(request, run_id), TagsForm(request.POST)
    if form.is_valid():
        tags.set_tags(run, form.cleaned_data["tags"])
    return _answer(request, form, "run", run_id)


def _answer(request: HttpRequest, form: forms.Form, page: str, key: UUID) -> HttpResponse:
    for error in (error for errors in form.errors.values() for error in errors):
        messages.error(request, str(error))
    return redirect(page, key)


KINDS: dict[str, Any] = {"model": Model, "workload": Workload, "run": Run}


@require_http_methods(["GET", "HEAD", "POST"])
@submitter_required
def delete(request: HttpRequest, kind: str, **keys: UUID) -> HttpResponse:
    """A page that asks, and lists what would be deleted with the target; a POST deletes it."""
    target = get_object_or_404(KINDS[kind].objects.for_user(request.user), pk=keys[f"{kind}_id"])
    if request.method != "POST":
        affected = deletion.dependents(target)
        return render(
            request, "runs/delete.html", {"kind": kind, "target": target, "affected": affected, "back": _page(target)}
        )
    parent = target.workload if isinstance(target, Run) else None
    try:
        deletion.delete(target, request.membership, with_dependents=True)  # type: ignore[attr-defined]
    except Problem as problem:
        messages.error(request, f"Not deleted: {problem.detail}.")
        return redirect(*_page(target))
    messages.success(request, f"The {kind} has been deleted.")
    return redirect("workload", parent.id) if parent else redirect(f"{kind}-list")


def _page(target: Any) -> tuple[str, UUID]:
    return target._meta.model_name, target.pk
