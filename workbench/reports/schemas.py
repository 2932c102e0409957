"""The API's schemas of reports."""

import uuid
from datetime import datetime

from ninja import Field, Schema

from workbench.reports.documents import Snapshot
from workbench.reports.models import Report
from workers.documents.base import Document

MAX_NOTE_LENGTH = 4000
"""Characters of a reviewer's note."""


class NewReport(Document):
    """The finished run to freeze."""

    run: uuid.UUID


class Review(Document):
    """The reviewer's note to the reader, and the customer whom the report is for; "" is the organisation."""

    note: str = Field("", max_length=MAX_NOTE_LENGTH)
    customer: str = Field("", max_length=120)


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
