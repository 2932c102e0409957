"""The portfolio, the sample by one click, and the example result."""

from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Exists, OuterRef
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_POST, require_safe

from workbench.accounts.models import Invitation, Membership
from workbench.accounts.permissions import can_admin, can_review, can_submit, submitter_required
from workbench.api.sentences import Problem
from workbench.home import activity as activities
from workbench.home import example as examples
from workbench.home import portfolio as portfolios
from workbench.home import sample as samples
from workbench.home.forms import FilterForm, SavedViewForm
from workbench.home.palette import search
from workbench.intake.models import Workload
from workbench.intake.services import placement
from workbench.pages.filters import left_out
from workbench.reports.models import Report
from workbench.results import page_context
from workbench.runs.models import Run
from workbench.runs.services import RunError, headlines

PAGE_SIZE = 25
MAX_VIEWS = 30


@require_safe
def portfolio(request: Any) -> HttpResponse:
    """Every workload of the caller's organisations, what runs now, and what awaits review."""
    user = request.user
    counts = portfolios.counts(user)
    rows = portfolios.workloads(user)
    choices = portfolios.choices(user)
    form = FilterForm(
        request.GET, organisations=[membership.organisation for membership in request.memberships], choices=choices
    )
    paginator = Paginator(portfolios.filtered(rows, form.chosen), PAGE_SIZE)
    if not form.chosen:
        paginator.count = counts["all"]
    page = paginator.get_page(request.GET.get("page"))
    ended = [workload.newest_run for workload in page if workload.newest_run and workload.newest_run.verdict]
    reached = headlines(run.id for run in ended)
    reviews, review_count = portfolios.awaiting_review(user)
    cheaper, compared, factor = portfolios.savings(user)
    newcomer = not counts["all"] and not Workload.objects.of_memberships(user).exists()
    context = {
        "form": form,
        "choices": (
            choices,
            [(membership.organisation_id, membership.organisation.name) for membership in request.memberships],
        ),
        "filtered": bool(form.chosen),
        "saved_views": user.saved_views.all(),
        "view_form": SavedViewForm(initial={"query": urlencode(form.chosen)}),
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
        "first_steps": [] if newcomer else first_steps(request.membership),
        "example": examples.example() if newcomer else None,
        "has_example": examples.FILE.exists(),
    }
    return render(request, "home/portfolio.html", context)


@require_safe
def activity(request: Any) -> HttpResponse:
    """What happened in the organisation; `?before=` an ISO 8601 time goes on where a page ended."""
    try:
        before = datetime.fromisoformat(request.GET["before"]).astimezone(UTC)
    except (KeyError, ValueError, OverflowError):
        before = None
    rows = activities.recent_activity(request.user, request.organisation, before)
    older = rows[-1].at.isoformat() if len(rows) == activities.MAX_SHOWN else ""
    return render(request, "home/activity.html", {"rows": rows, "older": older})


@require_safe
def palette(request: Any) -> JsonResponse:
    """What the command palette finds for `?q=`: workloads, models and reports by name, and runs by their id."""
    return JsonResponse({"matches": search(request.user, request.GET.get("q", ""))})


@require_POST
def close_first_steps(request: Any) -> HttpResponse:
    """Closes the member's list of first steps for good."""
    if request.membership:
        request.membership.start_hidden = True
        request.membership.save(update_fields=["start_hidden"])
    return redirect("workload-list")


@require_POST
def save_view(request: Any) -> HttpResponse:
    """Keeps the filters of the portfolio for the person; one of the same name is replaced."""
    form = SavedViewForm(request.POST)
    if not form.is_valid():
        messages.error(request, str(next(iter(form.errors.values()))[0]))
    elif request.user.saved_views.count() >= MAX_VIEWS:
        messages.error(request, f"You have {MAX_VIEWS} saved views. Delete one that you no longer use.")
    else:
        query = form.cleaned_data["query"]
        request.user.saved_views.update_or_create(name=form.cleaned_data["name"], defaults={"query": query})
        return redirect(f"{reverse('workload-list')}?{query}")
    return redirect("workload-list")


@require_POST
def delete_view(request: Any, view_id: int) -> HttpResponse:
    """Forgets one of the person's saved views."""
    get_object_or_404(request.user.saved_views, pk=view_id).delete()
    return redirect("workload-list")


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


class FirstStep(NamedTuple):
    """A step in words, where it is done, and whether it is."""

    words: str
    address: str
    done: bool


def first_steps(membership: Membership | None) -> list[FirstStep]:
    """The steps that the member's role allows, by one query; none once all are done or the member closed the list."""
    if membership is None or membership.start_hidden:
        return []
    of_organisation: dict[str, Any] = {"organisation": OuterRef("organisation")}
    done = Membership.objects.filter(pk=membership.pk).values_list(
        Exists(Run.objects.filter(**of_organisation)),
        Exists(Run.objects.filter(**of_organisation, state=Run.State.DONE)),
        Exists(Report.objects.filter(**of_organisation)),
        Exists(Report.objects.filter(**of_organisation, state=Report.State.PUBLISHED)),
        Exists(Invitation.objects.filter(**of_organisation)),
    )[0]
    workloads, reports, members = reverse("workload-list"), reverse("report-list"), reverse("members")
    steps = [
        (can_submit, "Start a run: the sample, or your own model", reverse("workload-new")),
        (can_submit, "Read the verdict of a finished run", workloads),
        (can_submit, "Freeze a result as a report", workloads),
        (can_review, "Review and publish a report", reports),
        (can_admin, "Invite a colleague", members),
    ]
    known = [
        FirstStep(words, address, is_done)
        for (may, words, address), is_done in zip(steps, done, strict=True)
        if may(membership)
    ]
    return known if not all(step.done for step in known) else []
