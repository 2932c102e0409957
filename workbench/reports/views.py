"""Reports: the list, one report, its way from draft to published, its links, and the customer's logo."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.hashers import check_password
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.text import slugify
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from workbench.accounts import shown_once
from workbench.accounts.permissions import reviewer_required
from workbench.accounts.throttle import LoginThrottle
from workbench.api.sentences import Problem
from workbench.pages.filters import ordered
from workbench.pages.outcome import attempt
from workbench.reports import logos, notes, services
from workbench.reports.forms import LogoForm, OpenForm, ReviewForm, ShareForm
from workbench.reports.models import Report, Share
from workbench.reports.services import ReportError
from workbench.results import page_context
from workbench.runs import report_files
from workbench.runs.services import headlines
from workbench.runs.views.runs import get_run
from workbench.web import pdf

PAGE_SIZE = 25
ORDERS = {"title": "title", "state": "state", "verdict": "verdict", "made": "created_at"}
ORDERS |= {"reviewer": "reviewed_by__email"}


def get_report(request: HttpRequest, report_id: UUID) -> Report:
    """The report if it is the caller's organisation's; raises Http404."""
    rows = Report.objects.for_user(request.user).select_related(
        "run", "organisation", "created_by", "reviewed_by", "published_by"
    )
    return get_object_or_404(rows, id=report_id)


@require_safe
def report_list(request: HttpRequest) -> HttpResponse:
    """Every report of the organisation, the newest first."""
    rows = Report.objects.for_user(request.user).defer("snapshot").select_related("created_by", "reviewed_by")
    page = Paginator(ordered(rows, request, ORDERS), PAGE_SIZE).get_page(request.GET.get("page"))
    reached = headlines(report.run_id for report in page)
    return render(
        request,
        "reports/list.html",
        {"page": page, "rows": [(report, reached.get(report.run_id, "")) for report in page]},
    )


@require_POST
def create(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """Freezes a finished run as a draft."""
    run = get_run(request, run_id)
    try:
        report = services.freeze(run, request.user)
    except Problem as error:
        messages.error(request, str(error))
        return redirect("run", run.id)
    messages.success(request, "The results are frozen as a draft. The account team reviews and publishes it.")
    return redirect("report", report.id)


@require_safe
@never_cache
def report_page(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """One report: its state and note, then the result as it was frozen."""
    report = get_report(request, report_id)
    return show(request, report, ReviewForm(initial={"note": report.note, "customer": report.customer}))


def show(request: HttpRequest, report: Report, form: ReviewForm, status: int = 200, **kwargs: Any) -> HttpResponse:
    """The page of a report; `kwargs` may hold a `share_form`, and `untaken`, a note that was typed too late."""
    document = report.document
    context = page_context.context(document.workload, document.model, document.results, document.stages)
    context["link"] = shown_once.take(request, f"link to {report.id}")
    context |= {"report": report, "form": form, "note": notes.html(report.note), "has_pdf": pdf.available()}
    context |= {"shares": report.shares.select_related("created_by"), "share_form": ShareForm()} | kwargs
    return render(request, "reports/report.html", context, status=status)


@require_safe
def report_file(request: HttpRequest, report_id: UUID, file: str) -> HttpResponse:
    """The frozen report, or a file made of it (`report_files.MEDIA_TYPES`); `?download` saves the page."""
    return file_response(get_report(request, report_id), file, "download" in request.GET)


def file_response(report: Report, file: str, download: bool) -> HttpResponse:
    """A file of the report, named after its title. Raises Http404 for a file of another name."""
    if file not in report_files.MEDIA_TYPES:
        raise Http404("A report has no such file.")
    try:
        page = services.render_page(report)
    except ReportError as error:
        raise Http404(str(error)) from error
    return report_files.respond(page, file, slugify(report.title) or "report", download, report.organisation_id)


@require_POST
@reviewer_required
def review(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """A draft becomes reviewed, with a note. Where somebody else was first, the typed note is shown, not lost."""
    report = get_report(request, report_id)
    form = ReviewForm(request.POST)
    if not form.is_valid():
        return show(request, report, form, status=422)
    note = form.cleaned_data["note"]
    try:
        services.review(report, request.user, note, form.cleaned_data["customer"])
    except ReportError as error:
        messages.error(request, str(error))
        return show(request, get_report(request, report_id), form, status=409, untaken=note.strip())
    messages.success(request, "The report is reviewed.")
    return redirect("report", report.id)


@require_POST
@reviewer_required
def reopen(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """A reviewed report becomes a draft again."""
    report = get_report(request, report_id)
    attempt(request, lambda: services.reopen(report, request.user), "The report is a draft again.", ReportError)
    return redirect("report", report.id)


@require_POST
@reviewer_required
def publish(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """A reviewed report becomes published."""
    report = get_report(request, report_id)
    done = "The report is published for every member of the organisation."
    attempt(request, lambda: services.publish(report, request.user), done, ReportError)
    return redirect("report", report.id)


@require_POST
@reviewer_required
@sensitive_post_parameters("password")
def share(request: Any, report_id: UUID) -> HttpResponse:
    """Makes a link, which the report's page then shows once."""
    report, form = get_report(request, report_id), ShareForm(request.POST)
    if form.is_valid():
        try:
            _, secret = services.create_share(report, request.user, **form.cleaned_data)
        except ReportError as error:
            form.add_error(None, str(error))
        else:
            link = request.build_absolute_uri(reverse("shared", args=[secret]))
            shown_once.keep(request, f"link to {report.id}", link)
            return redirect("report", report.id)
    return show(request, report, ReviewForm(), status=422, share_form=form)


@require_POST
@reviewer_required
def revoke(request: HttpRequest, share_id: UUID) -> HttpResponse:
    """Ends a link at once."""
    share = get_object_or_404(Share.objects.for_user(request.user).select_related("report"), pk=share_id)
    services.revoke_share(share, request.user)
    messages.success(request, "The link has been revoked.")
    return redirect("report", share.report_id)


@login_not_required
@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def shared(request: HttpRequest, secret: str, file: str = "") -> HttpResponse:
    """The report behind a link, after its password where it has one, or a file made of it. HEAD opens nothing."""
    share = services.find_active_share(secret)
    if share is None:
        return render(request, "reports/share_ended.html", status=404)
    key = f"share-{share.pk}"
    if share.password and not request.session.get(key):
        form = OpenForm(request.POST or None)
        if not (form.is_valid() and _opens(request, share, form)):
            return render(request, "reports/share_password.html", {"form": form}, status=422 if form.is_bound else 200)
        request.session[key] = True
        return redirect("shared", secret)
    if request.method == "GET" and not file:
        services.count_view(share)
    return file_response(share.report, file or "report.html", "download" in request.GET)


def _opens(request: HttpRequest, share: Share, form: OpenForm) -> bool:
    """Whether the password is right; failed attempts are counted as those of a login are."""
    throttle = LoginThrottle(request, f"share {share.pk}")
    if wait := throttle.wait():
        form.add_error("password", f"Too many attempts; try again in {wait} minutes.")
    elif check_password(form.cleaned_data["password"], share.password):
        throttle.succeeded()
    else:
        form.add_error("password", "This is not the password of the link.")
    return form.is_valid()


@reviewer_required
def logo(request: Any) -> HttpResponse:
    """Shows the logo that new reports carry; a POST changes it."""
    form = LogoForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid():
        try:
            logos.keep(request.organisation, form.cleaned_data["picture"], request.user)
        except logos.LogoError as error:
            form.add_error("picture", str(error))
        else:
            messages.success(request, "Reports that are frozen from now on carry this logo.")
            return redirect("logo")
    context = {"form": form, "logo": logos.of(request.organisation)}
    return render(request, "reports/logo.html", context, status=422 if form.is_bound else 200)


@require_POST
@reviewer_required
def remove_logo(request: Any) -> HttpResponse:
    """Reports that are frozen from now on carry no logo."""
    logos.remove(request.organisation, request.user)
    messages.success(request, "The logo is removed. Reports that were frozen with it keep it.")
    return redirect("logo")
