"""The form of a workload, and its checks as it is filled in."""

import contextlib
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pydantic
from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.middleware.csrf import CsrfViewMiddleware
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST

from workbench.accounts.permissions import submitter_required
from workbench.api.sentences import Problem, sentence, sentences
from workbench.intake import sla
from workbench.intake.forms import live_checks
from workbench.intake.forms.inputs import Choices
from workbench.intake.forms.workload import OWN, WorkloadForm
from workbench.intake.models import Model, Recording, Workload
from workbench.intake.services import catalogue, endpoints, placement
from workers.documents.model import ModelManifest
from workers.documents.quality_text import MAX_CHARACTERS
from workers.documents.workload import Workload as WorkloadDocument

RECORDINGS_SHOWN = 100
MAX_BYTES = {"sla_file": 4 * sla.MAX_CHARS, "quality_text_file": 4 * MAX_CHARACTERS}
"""Of a file that the form takes as a text, by its input; both fit into what is received of a form."""


@submitter_required
def answer(request: Any, start: Callable[[Any, WorkloadForm], Any]) -> HttpResponse:
    """The form, or the page of the run that `start` made of it; None of `start` shows the form with its reasons."""
    models = model_choices(request)
    if request.method != "POST":
        return _show(request, _initial_form(request, models))
    form = WorkloadForm.posted(request.POST, models)
    form.recordings, (form.sla_name, form.sla_text) = recording_choices(request), _sla_given(request)
    kept = endpoints.carried(request.user, form.key_carried) if form.filled["endpoint"] else ""
    typed = form.values.get("endpoint.key") or kept
    form.values["endpoint.key"], form.key_carried = typed, endpoints.carry(request.user, typed)
    if (text := request.FILES.get("quality_text_file")) and not form.values.get("quality_text"):
        form.values["quality_text"] = text.read(4 * (MAX_CHARACTERS + 1)).decode("utf-8", "replace").strip()
    action, _, index = request.POST.get("do", "start").partition(" ")
    form.stale = action != "show" and is_stale(request)
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
        run = start(request, form)
        return redirect("run", run.id) if run else _show(request, form, status=422)
    return _show(request, form, status=422 if form.sla_reasons else 200)


def model_choices(request: HttpRequest) -> list[tuple[str, Choices]]:
    """Catalogue and uploaded models, under their headings."""
    uploaded = Model.objects.for_user(request.user).filter(manifest__source="upload")
    return [
        ("Catalogue", [(name, f"{name}: {summary}") for name, summary, _ in catalogue.entries()]),
        ("Your models", [(model.content_digest, f"{model.name} ({model.content_digest[:8]})") for model in uploaded]),
    ]


def recording_choices(request: HttpRequest) -> Choices:
    """The organisation's newest recordings of traffic, by SHA-256."""
    rows = Recording.objects.for_user(request.user)[:RECORDINGS_SHOWN]
    return [(recording.sha256, recording.document.words) for recording in rows]


def _initial_form(request: HttpRequest, models: list[tuple[str, Choices]]) -> WorkloadForm:
    """The form to begin with: `?model=` chooses one, `?from=` copies a workload."""
    chosen = request.GET.get("model", "").replace("\0", "")
    facts = _facts(request, chosen)
    form = WorkloadForm.empty(models, chosen, facts.kind if facts else "decoder")
    form.recordings = recording_choices(request)
    if facts:
        form.fill(placement.suit_workload(document_of(form), facts).model_dump(mode="json"))
    with contextlib.suppress(ValueError):
        copied = own_workload(request, UUID(request.GET.get("from", "")))
        listed = copied.model.manifest.get("source") == "catalogue"
        form.fill(copied.document | {"model": copied.model.name if listed else copied.model.content_digest})
        form.copied = str(copied.id)
    return form


def _facts(request: HttpRequest, chosen: str) -> ModelManifest | None:
    """The chosen model; None where none is chosen or its manifest cannot be read."""
    model = Model.objects.for_user(request.user).filter(content_digest=chosen).first() if chosen else None
    if model or chosen not in {name for name, _, _ in catalogue.entries()}:
        return model.reading[0] if model else None
    return catalogue.catalogue_manifest(chosen)[0]


def _show(request: HttpRequest, form: WorkloadForm, status: int = 200) -> HttpResponse:
    checks = _live_checks(request, form)
    none = not (settings.ENDPOINT_ALLOWED_HOSTS or settings.ENDPOINT_PRIVATE_HOSTS)
    context = {"form": form, "checks": checks, "no_endpoints": none, "most_bytes": MAX_BYTES}
    return render(request, "intake/workload_new.html", context, status=status)


@require_POST
@submitter_required
def workload_check(request: Any) -> HttpResponse:
    """The checks of the form as it is filled in; 204 when they are those that the page shows. Nothing is stored."""
    form = WorkloadForm.posted(request.POST, model_choices(request))
    form.sla_name, form.sla_text = _sla_given(request)
    checks = _live_checks(request, form)
    if checks.digest == request.POST.get("seen"):
        return HttpResponse(status=204)
    return render(request, "intake/_checks.html", {"checks": checks})


def _live_checks(request: Any, form: WorkloadForm) -> live_checks.FormChecks:
    models, recordings = (kind.objects.for_user(request.user) for kind in (Model, Recording))
    return live_checks.check(form, models, recordings, request.organisation)


def _given_twice(request: HttpRequest, form: WorkloadForm) -> bool:
    """Whether a text was typed and a file of the same was chosen: the form then says so, and keeps what was typed."""
    reason = "there is text here, and a file was chosen as well: empty the text, or choose no file"
    sla_file = request.FILES.get("sla_file")
    if sla_file and request.POST.get("sla", "").strip():
        form.sla_reasons = [f"{sla_file.name}: {reason}"]
    if "quality_text_file" in request.FILES and request.POST.get("quality_text", "").strip():
        form.reasons = [{"field": "quality_text", "reason": reason}]
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


def copied_workload(request: HttpRequest, form: WorkloadForm) -> Workload | None:
    """The workload that the form began with, where the member may see it."""
    with contextlib.suppress(ValueError):
        return Workload.objects.for_user(request.user).filter(pk=UUID(form.copied)).first()
    return None


def document_of(form: WorkloadForm) -> WorkloadDocument:
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


def own_workload(request: HttpRequest, workload_id: UUID) -> Workload:
    rows = Workload.objects.for_user(request.user)
    rows = rows.select_related("model", "recording", "created_by", "organisation")
    return get_object_or_404(rows, pk=workload_id)


FORGOTTEN = ("csrfmiddlewaretoken", "do", "endpoint.key", "key_carried", "seen")
"""Fields that are not written into a page for somebody who is logged out: what only a login may say or know."""


class _TokenCheck(CsrfViewMiddleware):
    """Gives the reason of a refusal in the place of an answer."""

    def _reject(self, request: HttpRequest, reason: str) -> Any:
        return reason


def is_stale(request: HttpRequest) -> bool:
    """Whether the form was not made for this login: Django's check of the CSRF token, for a view that is exempt."""

    def view(_: HttpRequest) -> HttpResponse:
        return HttpResponse()

    return bool(_TokenCheck(view).process_view(request, view, (), {}))


def logged_out(request: HttpRequest) -> HttpResponseBase:
    """The way to the login; after a POST a page that holds what was typed, to be shown again after the login.

    Where scripts run, app.js asks for the session before a form is sent, and none of this is seen.
    """
    if "HX-Request" in request.headers:
        return HttpResponse(status=401)
    if request.method != "POST":
        return redirect_to_login(request.get_full_path())
    typed = [(name, value) for name, values in request.POST.lists() if name not in FORGOTTEN for value in values]
    return render(request, "intake/unsent.html", {"typed": typed}, status=401)
