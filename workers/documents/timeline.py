"""The timeline of a traced request, as the stages describe it."""

from workers.documents.base import Artifact, Document


class LaneSummary(Document):
    """One lane of a timeline: a stream of the GPU, or what a host thread did. `busy_ms` counts overlaps once."""

    name: str
    events: int
    busy_ms: float


class RequestTimeline(Document):
    """The timeline that the result page draws of a traced request; `file` is its compressed JSON.

    `sentence` says what was left out, or is "". The profiler slows the host: these times are longer than those that
    verdicts are made of.
    """

    file: Artifact
    duration_ms: float
    lanes: list[LaneSummary]
    sentence: str = ""
