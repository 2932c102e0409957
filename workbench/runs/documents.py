"""Documents about a run that its pages and its reports share."""

from workers.documents.base import Document


class StageTime(Document):
    """When a stage ran, in seconds since the run started."""

    stage: str
    start_s: float
    duration_s: float
