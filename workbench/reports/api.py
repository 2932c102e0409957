"""Reports in the public API."""

import uuid
from typing import Any, Literal

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from ninja import Query, Router, Status

from workbench.accounts.permissions import reviewer_required
from workbench.api.pagination import Page, PageQuery, page
from workbench.openapi import answers_file
from workbench.reports import services
from workbench.reports.models import Report
from workbench.reports.schemas import NewReport, ReportDetail, ReportSummary, Review
from workbench.reports.views import file_response
from workbench.runs.api import own_run

router = Router(tags=["reports"])
ReportFile = Literal["report.html", "report.pdf", "report-letter.pdf", "tables.zip", "tables.json"]


def _report(request: Any, report_id: uuid.UUID) -> Report:
    return get_object_or_404(Report.objects.for_user(request.user), id=report_id)


@router.get("/reports", response=Page[ReportSummary], summary="List reports, newest first")
def list_reports(request: Any, query: Query[PageQuery]) -> dict[str, Any]:
    """The organisation's frozen reports."""
    return page(Report.objects.for_user(request.user).defer("snapshot"), query)


@router.post("/reports", response={201: ReportSummary}, summary="Freeze a run")
def freeze_report(request: Any, body: NewReport) -> Any:
    """Freeze the results of a finished run as a draft."""
    return Status(201, services.freeze(own_run(request, body.run), request.user))


@router.get("/reports/{uuid:report_id}", response=ReportDetail, summary="Read a report")
def read_report(request: Any, report_id: uuid.UUID) -> Report:
    """A report with its snapshot."""
    return _report(request, report_id)


@router.get(
    "/reports/{uuid:report_id}/file", summary="Take the report as a file", openapi_extra=answers_file("text/html")
)
def read_report_file(request: Any, report_id: uuid.UUID, file: ReportFile = "report.html") -> HttpResponse:
    """The self-contained HTML file with note, reviewer, dates and prices; or that as PDF, or its tables."""
    return file_response(_report(request, report_id), file, download=True)


@router.post("/reports/{uuid:report_id}/review", response=ReportSummary, summary="Review a report")
@reviewer_required
def review_report(request: Any, report_id: uuid.UUID, body: Review) -> Report:
    """A draft becomes reviewed, with a note."""
    return services.review(_report(request, report_id), request.user, body.note, body.customer)


@router.post("/reports/{uuid:report_id}/publish", response=ReportSummary, summary="Publish a report")
@reviewer_required
def publish_report(request: Any, report_id: uuid.UUID) -> Report:
    """A reviewed report becomes published, for good."""
    return services.publish(_report(request, report_id), request.user)
