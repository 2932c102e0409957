"""What members call runs and workloads by: tags on a run, the project of a workload."""

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from workbench.accounts.permissions import submitter_required
from workbench.intake.models import LONGEST_PROJECT
from workbench.intake.views.workload_form import own_workload
from workbench.runs import tags
from workbench.runs.tags import LONGEST_TAG, MOST_TAGS
from workbench.runs.views.runs import get_run
from workbench.short_text import ShortTextField


class ProjectForm(forms.Form):
    """The project of a workload; none takes it out of its project."""

    project = ShortTextField(max_length=LONGEST_PROJECT, required=False)


class TagsForm(forms.Form):
    """The tags of a run, between commas."""

    tags = ShortTextField(max_length=500, required=False)

    def clean_tags(self) -> list[str]:
        """Raises ValidationError for too many or too long ones."""
        names = list(dict.fromkeys(filter(None, (name.strip() for name in self.cleaned_data["tags"].split(",")))))
        if len(names) > MOST_TAGS:
            raise ValidationError(f"A run has at most {MOST_TAGS} tags; these are {len(names)}.")
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
