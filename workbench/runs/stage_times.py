"""Documents about a run that its pages and its reports share."""

from collections.abc import Iterable
from datetime import datetime

from workers.documents.base import Document


class StageTime(Document):
    """When a stage ran, in seconds since the run started."""

    stage: str
    start_s: float
    duration_s: float


def times_since(origin: datetime, spans: Iterable[tuple[str, datetime, datetime]]) -> list[StageTime]:
    """The times of stages, each with its begin and its end, in seconds since `origin`."""
    return [
        StageTime(stage=stage, start_s=(begin - origin).total_seconds(), duration_s=(end - begin).total_seconds())
        for stage, begin, end in spans
    ]
