"""Pages of workloads: the form, one workload."""

import contextlib
import json
from typing import Any
from uuid import UUID

import pydantic
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.core.paginator import Paginator
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from workbench.accounts.permissions import submitter_required
from workbench.api.sentences import Problem, sentence, sentences
from workbench.intake import sla
from workbench.intake.forms.inputs import Choices
from workbench.intake.forms.workload import OWN, WorkloadForm
from workbench.intake.models import Model, Recording, Workload
from workbench.intake.services import catalogue, endpoints
from workbench.intake.services.workloads import create_workload
from workbench.runs import live_checks
from workbench.runs.front import front_of
from workbench.runs.models import Run
from workbench.runs.result_page import request_words
from workbench.runs.reuse import earlier_search
from workbench.runs.services import RunError, create_run
from workbench.runs.views import unsent
from workers.documents.model import Kind
from workers.documents.quality_text import MOST_CHARACTERS
from workers.documents.workload import Workload as WorkloadDocument

PAGE_SIZE = 25
FIELDS_OF_RUN = {"gpu_class": "constraints.gpu_classes"}
"""What the form calls the inputs that a run is refused for."""
RECORDINGS_SHOWN = 100
MOST_BYTES = {"sla_file": 4 * sla.MAX_CHARS, "quality_text_file": 4 * MOST_CHARACTERS}
"""Of a file that the form takes as a text, by its input; both fit into what is received of a form."""


@require_safe
def workload_page(request: HttpRequest, workload_id: UUID) -> HttpResponse:
    """One workload: what it asks for, and its runs."""
    workload = _workload(request, workload_id)
    document, unreadable = workload.reading
    manifest = workload.model.reading[0]
    context = {
        "workload": workload,
        "sla": document,
        "request_words": request_words(document, manifest),
        "counted": manifest.counted if manifest else "tokens",
        "unreadable": unreadable,
        "page": Paginator(workload.runs.select_related("created_by"), PAGE_SIZE).get_page(request.GET.get("page")),
        "document": json.dumps(workload.document, indent=2),
        "front": front_of(workload, document, manifest) if document and manifest else None,
        "known_search": _known_search(workload, document) if document else None,
    }
    return render(request, "runs/workload.html", context)


def _known_search(workload: Workload, document: WorkloadDocument) -> Run | None:
    """The run whose search another one of the workload would take over, on the first class that has one."""
    organisation, classes = workload.organisation, document.constraints.gpu_classes
    runs = (Run(organisation=organisation, workload=workload, gpu_class=each) for each in classes)
    return next(filter(None, map(earlier_search, runs)), None)


@require_POST
@submitter_required
def run_again(request: HttpRequest, workload_id: UUID) -> HttpResponse:
    """Starts another run of the workload."""
    again = "search_again" in request.POST
    try:
        run = create_run(_workload(request, workload_id), request.user, search_again=again)
    except (RunError, Problem) as error:
        messages.error(request, str(error))
        return redirect("workload", workload_id)
    return redirect("run", run.id)


@require_POST
@submitter_required
def archive(request: HttpRequest, workload_id: UUID) -> HttpResponse:
    """Takes the workload out of the portfolio, or back into it."""
    workload = _workload(request, workload_id)
    workload.archived_at = None if workload.archived_at else timezone.now()
    workload.save(update_fields=["archived_at"])
    return redirect("workload", workload.id)


@login_not_required  # a POST of somebody who is logged out is answered by what they typed
@csrf_exempt  # is_stale checks the token: a form with an old one is shown again, and does nothing
@require_http_methods(["GET", "HEAD", "POST"])
def workload_new(request: Any) -> HttpResponseBase:
    """The form. `do` says which button was pressed: start, read (an SLA), template, add or remove (an objective).

    `show` does nothing but show what was typed.
    """
    return _workload_form(request) if request.user.is_authenticated else unsent.logged_out(request)


@submitter_required
def _workload_form(request: Any) -> HttpResponse:
    models = model_choices(request)
    if request.method != "POST":
        return _show(request, _started(request, models))
    form = WorkloadForm.posted(request.POST, models)
    form.recordings, (form.sla_name, form.sla_text) = recording_choices(request), _sla_given(request)
    kept = endpoints.carried(request.user, form.key_carried) if form.names_endpoint else ""
    typed = form.values.get("endpoint.key") or kept
    form.values["endpoint.key"], form.key_carried = typed, endpoints.carry(request.user, typed)
    if (text := request.FILES.get("quality_text_file")) and not form.values.get("quality_text"):
        form.values["quality_text"] = text.read(4 * (MOST_CHARACTERS + 1)).decode("utf-8", "replace").strip()
    action, _, index = request.POST.get("do", "start").partition(" ")
    form.stale = action != "show" and unsent.is_stale(request)
    if form.stale or action == "show":
        return _show(request, form, status=403 if form.stale else 200)
    if action in ("start", "read") and _given_twice(request, form):
        return _show(request, form, status=422)
    if action == "add":
        form.add_objective()
    elif action == "remove" and index.isdigit():
        form.remove_objective(int(index))
    elif action == "template" and index in dict(form.templates):
        form.use_template(index)
    elif action == "read":
        _read_sla(request, form)
    else:
        run = _start(request, form)
        return redirect("run", run.id) if run else _show(request, form, status=422)
    return _show(request, form, status=422 if form.sla_reasons else 200)


def model_choices(request: HttpRequest) -> list[tuple[str, Choices]]:
    """Catalogue and uploaded models, under their headings."""
    own = Model.objects.for_user(request.user).filter(manifest__source="upload")
    return [
        ("Catalogue", [(name, f"{name}: {summary}") for name, summary, _ in catalogue.entries()]),
        ("Your models", [(model.content_digest, f"{model.name} ({model.content_digest[:8]})") for model in own]),
    ]


def recording_choices(request: HttpRequest) -> Choices:
    """The organisation's newest recordings of traffic, by SHA-256."""
    rows = Recording.objects.for_user(request.user)[:RECORDINGS_SHOWN]
    return [(each.sha256, each.document.words) for each in rows]


def _started(request: HttpRequest, models: list[tuple[str, Choices]]) -> WorkloadForm:
    """The form to begin with: `?model=` chooses one, `?from=` copies a workload."""
    chosen = request.GET.get("model", "").replace("\0", "")
    form = WorkloadForm.empty(models, chosen, _kind(request, chosen))
    form.recordings = recording_choices(request)
    with contextlib.suppress(ValueError):
        copied = _workload(request, UUID(request.GET.get("from", "")))
        form.fill(copied.document | {"model": _choice(copied.model)})
        form.copied = str(copied.id)
    return form


def _kind(request: HttpRequest, chosen: str) -> Kind:
    """The kind of the chosen model; a decoder where none is chosen or its manifest cannot be read."""
    own = Model.objects.for_user(request.user).filter(content_digest=chosen).first() if chosen else None
    facts = own.reading[0] if own else None
    known = {name: entry.kind for name, _, entry in catalogue.entries()}
    return facts.kind if facts else known.get(chosen, "decoder")


def _choice(model: Model) -> str:
    """The value that stands for the model among `model_choices`."""
    return model.name if model.manifest.get("source") == "catalogue" else model.content_digest


def _show(request: HttpRequest, form: WorkloadForm, status: int = 200) -> HttpResponse:
    checks = _live_checks(request, form)
    none = not (settings.ENDPOINT_ALLOWED_HOSTS or settings.ENDPOINT_PRIVATE_HOSTS)
    context = {"form": form, "checks": checks, "no_endpoints": none, "most_bytes": MOST_BYTES}
    return render(request, "runs/workload_new.html", context, status=status)


@require_POST
@submitter_required
def workload_check(request: Any) -> HttpResponse:
    """The checks of the form as it is filled in; 204 when they are those that the page shows. Nothing is stored."""
    form = WorkloadForm.posted(request.POST, model_choices(request))
    form.sla_name, form.sla_text = _sla_given(request)
    checks = _live_checks(request, form)
    if checks.digest == request.POST.get("seen"):
        return HttpResponse(status=204)
    return render(request, "runs/_checks.html", {"checks": checks})


def _live_checks(request: Any, form: WorkloadForm) -> live_checks.Checks:
    models, recordings = (kind.objects.for_user(request.user) for kind in (Model, Recording))
    return live_checks.check(form, models, recordings, request.organisation)


def _given_twice(request: HttpRequest, form: WorkloadForm) -> bool:
    """Whether a text was typed and a file of the same was chosen: the form then says so, and keeps what was typed."""
    said = "there is text here, and a file was chosen as well: empty the text, or choose no file"
    sla_file = request.FILES.get("sla_file")
    if sla_file and request.POST.get("sla", "").strip():
        form.sla_reasons = [f"{sla_file.name}: {said}"]
    if "quality_text_file" in request.FILES and request.POST.get("quality_text", "").strip():
        form.reasons = [{"field": "quality_text", "reason": said}]
    return bool(form.sla_reasons or form.reasons)


def _sla_given(request: HttpRequest) -> tuple[str, str]:
    """Name and text of the SLA, from the text area, or from the file where nothing was typed."""
    file, typed = request.FILES.get("sla_file"), request.POST.get("sla", "").strip()
    if file is None or typed:
        return "SLA", typed
    return str(file.name), file.read(sla.MAX_CHARS + 1).decode("utf-8", "replace").strip()


def _read_sla(request: HttpRequest, form: WorkloadForm) -> None:
    """Fills the form from the SLA's text, or says why not."""
    try:
        document = _checked(
            {"model": form.values.get("model") or "-"} | sla.parse(form.sla_text, form.sla_name), form.sla_name
        )
    except Problem as problem:
        form.sla_reasons = [sentence(reason) for reason in problem.errors]
        return
    chosen = {} if document.model == "-" else {"model": document.model}
    unsaid = set(OWN) - document.model_fields_set
    form.fill(document.model_dump(mode="json", exclude={"model", *unsaid}) | chosen)
    if document.endpoint:
        form.values["endpoint.key"] = document.endpoint.key.get_secret_value()
        form.key_carried = endpoints.carry(request.user, form.values["endpoint.key"])
    form.sla_text = ""


def _start(request: Any, form: WorkloadForm) -> Run | None:
    """Makes workload and run; None, with the reasons in the form, when something is wrong."""
    try:
        with transaction.atomic():
            workload = create_workload(request.organisation, request.user, _document(form), _copied(request, form))
            return create_run(workload, request.user)
    except Problem as problem:
        if form.sla_text:
            form.sla_reasons = [sentence(reason) for reason in problem.errors]
        else:
            form.reasons = problem.errors
    except RunError as error:
        form.reasons = [{"field": FIELDS_OF_RUN.get(error.field, error.field), "reason": str(error)}]
    return None


def _copied(request: HttpRequest, form: WorkloadForm) -> Workload | None:
    """The workload that the form began with, where the member may see it."""
    with contextlib.suppress(ValueError):
        return Workload.objects.for_user(request.user).filter(pk=UUID(form.copied)).first()
    return None


def _document(form: WorkloadForm) -> WorkloadDocument:
    """The document of the form, or of the SLA's text when there is one. Raises Problem."""
    if not form.sla_text:
        return _checked(form.document())
    given = {"model": form.values["model"]} if form.values.get("model") else {}
    return _checked(given | sla.parse(form.sla_text, form.sla_name), form.sla_name)


def _checked(document: dict[str, Any], file: str = "") -> WorkloadDocument:
    try:
        return WorkloadDocument.model_validate(document)
    except pydantic.ValidationError as error:
        raise Problem(422, "The workload is not valid.", sentences(error, file)) from None


def _workload(request: HttpRequest, workload_id: UUID) -> Workload:
    rows = Workload.objects.for_user(request.user)
    rows = rows.select_related("model", "recording", "created_by", "organisation")
    return get_object_or_404(rows, pk=workload_id)
