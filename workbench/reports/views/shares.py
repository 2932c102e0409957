"""Making and revoking links to a published report, and what their readers see."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.hashers import check_password
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from workbench.accounts import shown_once
from workbench.accounts.permissions import reviewer_required
from workbench.accounts.throttle import LoginThrottle
from workbench.reports import sharing
from workbench.reports.forms import OpenForm, ReviewForm, ShareForm
from workbench.reports.models import Share
from workbench.reports.services import ReportError
from workbench.reports.views.reports import file_response, get_report, show


@require_POST
@reviewer_required
@sensitive_post_parameters("password")
def share(request: Any, report_id: UUID) -> HttpResponse:
    """Makes a link, which the report's page then shows once."""
    report, form = get_report(request, report_id), ShareForm(request.POST)
    if form.is_valid():
        try:
            _, secret = sharing.share(report, request.user, **form.cleaned_data)
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
    sharing.revoke(share, request.user)
    messages.success(request, "The link has been revoked.")
    return redirect("report", share.report_id)


@login_not_required
@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def shared(request: HttpRequest, secret: str, file: str = "") -> HttpResponse:
    """The report behind a link, after its password where it has one, or a file made of it. HEAD opens nothing."""
    share = sharing.find(secret)
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
        sharing.count_view(share)
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
