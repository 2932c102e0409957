"""Reports and prices in the public API."""

import uuid
from datetime import datetime
from typing import Any

from django.http import FileResponse
from django.shortcuts import get_object_or_404
from ninja import Query, Router, Schema, Status

from workbench.accounts.permissions import can_review
from workbench.api.pagination import Page, PageQuery, page
from workbench.api.problems import Problem
from workbench.reports import publishing, services
from workbench.reports.documents import Snapshot
from workbench.reports.models import Report
from workbench.reports.run_views import report_response
from workbench.runs.models import Run
from workbench.runs.services import lacks
from workers.documents.prices import PriceBook

router = Router(tags=["reports"])


class NewReport(Schema):
    """The finished run to freeze."""

    run: uuid.UUID


class Review(Schema):
    """The reviewer's note to the reader."""

    note: str = ""


class ReportSummary(Schema):
    """A report in a list."""

    id: uuid.UUID
    run: uuid.UUID
    title: str
    state: str
    verdict: str
    note: str
    created_at: datetime
    reviewed_at: datetime | None
    published_at: datetime | None

    @staticmethod
    def resolve_run(report: Report) -> uuid.UUID:
        return report.run_id


class ReportDetail(ReportSummary):
    """A report with everything that was frozen."""

    snapshot: Snapshot


def _report(request: Any, report_id: uuid.UUID) -> Report:
    return get_object_or_404(Report.objects.for_user(request.user), id=report_id)


def _may_review(request: Any) -> None:
    if not can_review(request.membership):
        raise Problem(403, "Only the account role or an admin of the organisation may do this.")


def _run(request: Any, run_id: uuid.UUID) -> Run:
    return get_object_or_404(Run.objects.for_user(request.user).select_related("workload__model"), id=run_id)


@router.get("/runs/{uuid:run_id}/report", summary="Take the report")
def run_report(request: Any, run_id: uuid.UUID) -> FileResponse:
    """The self-contained HTML report that the run wrote."""
    run = _run(request, run_id)
    response = report_response(run, download=True)
    if response is None:
        raise Problem(404, lacks(run, "report"))
    return response


@router.get("/reports", response=Page[ReportSummary], summary="List reports, newest first")
def index(request: Any, query: Query[PageQuery]) -> dict[str, Any]:
    """The organisation's frozen reports."""
    return page(Report.objects.for_user(request.user).defer("snapshot"), query)


@router.post("/reports", response={201: ReportSummary}, summary="Freeze a run")
def create(request: Any, body: NewReport) -> Any:
    """Freeze the results of a finished run as a draft."""
    try:
        return Status(201, publishing.freeze(_run(request, body.run), request.user))
    except publishing.ReportError as error:
        raise Problem(409, str(error)) from error


@router.get("/reports/{uuid:report_id}", response=ReportDetail, summary="Read a report")
def read(request: Any, report_id: uuid.UUID) -> Report:
    """A report with its snapshot."""
    return _report(request, report_id)


@router.post("/reports/{uuid:report_id}/review", response=ReportSummary, summary="Review a report")
def review(request: Any, report_id: uuid.UUID, body: Review) -> Report:
    """A draft becomes reviewed, with a note."""
    _may_review(request)
    try:
        return publishing.review(_report(request, report_id), request.user, body.note)
    except publishing.ReportError as error:
        raise Problem(409, str(error)) from error


@router.post("/reports/{uuid:report_id}/publish", response=ReportSummary, summary="Publish a report")
def publish(request: Any, report_id: uuid.UUID) -> Report:
    """A reviewed report becomes published, for good."""
    _may_review(request)
    try:
        return publishing.publish(_report(request, report_id), request.user)
    except publishing.ReportError as error:
        raise Problem(409, str(error)) from error


@router.get("/prices", response=PriceBook, summary="Read the price book in force")
def prices(request: Any) -> PriceBook:
    """USD per GPU-hour, dated and sourced."""
    return services.price_book(request.organisation)


@router.post("/prices", response={201: PriceBook}, summary="Put a new price book in force")
def add_prices(request: Any, body: PriceBook) -> Any:
    """Runs from now on use it; reports keep the prices they were made with."""
    _may_review(request)
    return Status(201, services.add_price_book(request.organisation, request.user, body).book)
