"""What a run's pages and reports read beside its results."""

from workers.documents.base import Document


class StageTime(Document):
    """When a stage ran, in seconds since the run started."""

    stage: str
    start_s: float
    duration_s: float
