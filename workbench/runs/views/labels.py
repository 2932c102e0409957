"""What members call runs and workloads by: tags on a run, the project of a workload."""

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from workbench.accounts.permissions import submitter_required
from workbench.intake.views.workload_form import own_workload
from workbench.runs.models import Tag
from workbench.runs.views.runs import get_run
from workbench.short_text import ShortTextField

MOST_TAGS = 10


class ProjectForm(forms.Form):
    """The project of a workload; none takes it out of its project."""

    project = ShortTextField(max_length=80, required=False)


class TagsForm(forms.Form):
    """The tags of a run, between commas."""

    tags = ShortTextField(max_length=500, required=False)

    def clean_tags(self) -> list[str]:
        """Raises ValidationError for too many or too long ones."""
        names = list(dict.fromkeys(filter(None, (name.strip() for name in self.cleaned_data["tags"].split(",")))))
        if len(names) > MOST_TAGS:
            raise ValidationError(f"A run has at most {MOST_TAGS} tags; these are {len(names)}.")
        if longest := next((name for name in names if len(name) > 40), ""):
            raise ValidationError(f"“{longest[:40]}…” is longer than 40 characters. Put commas between tags.")
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
        with transaction.atomic():
            own, names = Tag.objects.filter(organisation=run.organisation), form.cleaned_data["tags"]
            run.tags.set([own.get_or_create(organisation=run.organisation, name=name)[0] for name in names])
            own.filter(runs=None).delete()
    return _answer(request, form, "run", run_id)


def _answer(request: HttpRequest, form: forms.Form, page: str, key: UUID) -> HttpResponse:
    for error in (error for errors in form.errors.values() for error in errors):
        messages.error(request, str(error))
    return redirect(page, key)
