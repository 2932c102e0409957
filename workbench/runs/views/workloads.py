"""Workloads that become runs: the form that is sent, another run, the archive."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_POST

from workbench.accounts.permissions import submitter_required
from workbench.api.sentences import Problem, sentence
from workbench.intake.forms.workload import WorkloadForm
from workbench.intake.services.workloads import create_workload
from workbench.intake.views import workload_form
from workbench.intake.views.workload_form import answer, copied_workload, document_of, own_workload
from workbench.runs.models import Run
from workbench.runs.services import RunError, create_run

FIELDS_OF_RUN = {"gpu_class": "constraints.gpu_classes"}
"""What the form calls the inputs that a run is refused for."""


@login_not_required  # a POST of somebody who is logged out is answered by what they typed
@csrf_exempt  # is_stale checks the token: a form with an old one is shown again, and does nothing
@require_http_methods(["GET", "HEAD", "POST"])
def workload_new(request: Any) -> HttpResponseBase:
    """The form. `do` says which button was pressed: start, read (an SLA), template, add or remove (an objective).

    `show` does nothing but show what was typed.
    """
    return answer(request, _start) if request.user.is_authenticated else workload_form.logged_out(request)


def _start(request: Any, form: WorkloadForm) -> Run | None:
    """Makes workload and run; None, with the reasons in the form, when something is wrong."""
    try:
        with transaction.atomic():
            workload = create_workload(
                request.organisation, request.user, document_of(form), copied_workload(request, form)
            )
            return create_run(workload, request.user)
    except Problem as problem:
        if form.sla_text:
            form.sla_reasons = [sentence(reason) for reason in problem.errors]
        else:
            form.reasons = problem.errors
    except RunError as error:
        form.reasons = [{"field": FIELDS_OF_RUN.get(error.field, error.field), "reason": str(error)}]
    return None


@require_POST
@submitter_required
def run_again(request: HttpRequest, workload_id: UUID) -> HttpResponse:
    """Starts another run of the workload."""
    again = "search_again" in request.POST
    try:
        run = create_run(own_workload(request, workload_id), request.user, search_again=again)
    except (RunError, Problem) as error:
        messages.error(request, str(error))
        return redirect("workload", workload_id)
    return redirect("run", run.id)


@require_POST
@submitter_required
def archive(request: HttpRequest, workload_id: UUID) -> HttpResponse:
    """Takes the workload out of the portfolio, or back into it."""
    workload = own_workload(request, workload_id)
    workload.archived_at = None if workload.archived_at else timezone.now()
    workload.save(update_fields=["archived_at"])
    return redirect("workload", workload.id)
