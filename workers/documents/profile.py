"""The profiles of a run, of what runs today and of the verified plan, and the timelines of their traced requests."""

from typing import Any, Literal

from pydantic import Field

from workers.documents.base import Artifact, Document
from workers.documents.measurement import Ceilings, Environment


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


class OpRow(Document):
    """One op of the profile, summed over one request. Times in ms; `bound`: memory, compute, launch or idle."""

    op: str
    phase: str
    kernel: str
    ms: float
    share: float
    calls: int
    launches: int | None = Field(default=None, description="of kernels; on a CPU, of torch's operations")
    shapes: str = ""
    flops: float | None = None
    least_bytes: float | None = None
    floor_ms: float | None = None
    headroom_ms: float | None = None
    bound: Literal["memory", "compute", "launch", "idle"]
    doubt: str = Field(default="", description="why the row has no floor though one was computed, in a sentence")


class Bottleneck(Document):
    """One plain sentence: what it is, how much it costs, what would help."""

    rank: int
    op: str
    ms: float
    share: float
    bound: str
    sentence: str


class ProfileResult(Document):
    environment: Environment
    ceilings: Ceilings
    request_ms: float
    device_ms: float
    doubt: str = Field(default="", description="why the device's time is not said, in a sentence")
    attributed_share: float
    launches: int
    rows: list[OpRow]
    bottlenecks: list[Bottleneck]
    cases: list[dict[str, Any]] = Field(default=[], description="the ops' cases with per_request, for explore")
    replayed: list[OpRow] = Field(default=[], description="the same request under CUDA graphs, where it was profiled")
    replayed_share: float | None = Field(default=None, description="attributed share of `replayed`")
    notes: list[str] = []
    trace: Artifact | None = None
    timeline: RequestTimeline | None = None


class PlanProfile(Document):
    """Where a request of the verified plan spends its time, in ms; traced after all that the same process times."""

    request_ms: float
    device_ms: float
    launches: int
    attributed_share: float
    floor_ms: float | None = Field(default=None, description="by the measured ceilings; None in a lower precision")
    rows: list[OpRow]
    sentence: str
    trace: Artifact | None = None
    timeline: RequestTimeline | None = None
