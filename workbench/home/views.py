"""The portfolio, the sample by one click, and the example result."""

from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from workbench.accounts.permissions import submitter_required
from workbench.api.sentences import Problem
from workbench.home import example as examples
from workbench.home import portfolio as portfolios
from workbench.home import sample as samples
from workbench.home.forms import FilterForm
from workbench.intake.services import placement
from workbench.pages.filters import left_out
from workbench.results import page_context
from workbench.runs.services import RunError, headlines

PAGE_SIZE = 25


@require_safe
def portfolio(request: Any) -> HttpResponse:
    """Every workload of the caller's organisations, what runs now, and what awaits review."""
    user = request.user
    counts = portfolios.counts(user)
    rows = portfolios.workloads(user)
    models, classes = portfolios.choices(user)
    form = FilterForm(
        request.GET,
        organisations=[membership.organisation for membership in request.memberships],
        models=models,
        classes=classes,
    )
    paginator = Paginator(portfolios.filtered(rows, form.chosen), PAGE_SIZE)
    if not form.chosen:
        paginator.count = counts["all"]
    page = paginator.get_page(request.GET.get("page"))
    ended = [workload.newest_run for workload in page if workload.newest_run and workload.newest_run.verdict]
    reached = headlines(run.id for run in ended)
    reviews, review_count = portfolios.awaiting_review(user)
    cheaper, compared, factor = portfolios.savings(user)
    newcomer = not counts["all"] and not portfolios.has_any(user)
    context = {
        "form": form,
        "choices": (
            models,
            classes,
            [(membership.organisation_id, membership.organisation.name) for membership in request.memberships],
        ),
        "filtered": bool(form.chosen),
        "left_out": left_out(request.GET, form),
        "page": page,
        "rows": [(workload, workload.newest_run, reached.get(workload.newest_run_id or "", "")) for workload in page],
        "counts": counts,
        "open_runs": portfolios.open_runs(user),
        "reviews": reviews,
        "review_count": review_count,
        "cheaper": cheaper,
        "compared": compared,
        "factor": factor,
        "newcomer": newcomer,
        "example": examples.example() if newcomer else None,
        "has_example": examples.FILE.exists(),
    }
    return render(request, "home/portfolio.html", context)


@require_POST
@submitter_required
def sample(request: Any) -> HttpResponse:
    """Submits the sample workload and shows its run."""
    try:
        run = samples.submit(request.organisation, request.user)
    except (Problem, RunError) as error:
        messages.error(request, str(error))
        return redirect("workload-list")
    return redirect("run", run.id)


@require_safe
def example(request: HttpRequest) -> HttpResponse:
    """The result page of a run on an H200 that comes with the product."""
    shown = examples.example()
    if shown is None:
        raise Http404("This installation has no example.")
    context = page_context.context(shown.workload, shown.model, shown.results, shown.stages)
    has_gpu = any(gpu_class != "cpu" for gpu_class in placement.alive())
    return render(request, "home/example.html", context | {"example": shown, "has_gpu": has_gpu})
