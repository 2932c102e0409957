"""Documents between a GPU worker and the workbench. Every one about a stage names its attempt."""

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, Field

from workers.documents.base import Artifact, Document
from workers.documents.stages import Progress, Stage, StageFailure

WORKER_ALIVE_SECONDS = 45
"""A worker that has not said hello for this long counts as gone."""


CLAIM_HEADER = "Claim-Token"
"""The answer to a claim carries it; every later call about the attempt, of the claiming worker alone, sends it back."""


def _identity(text: str) -> str:
    """A run's id in its usual form. Raises ValueError."""
    return str(UUID(text))


ENDPOINT_STAGES: tuple[Stage, ...] = ("verify", "load")
"""The worker measures the workload's endpoint before and after verify, and after load."""


class Receipt(Document):
    """The answer to an artifact's upload; the outcome that lists the artifact carries it."""

    receipt: str


class StageKey(Document):
    """One attempt at one stage of one run."""

    run_id: Annotated[str, AfterValidator(_identity)]
    stage: Stage
    attempt: int = Field(ge=1)


class Claim(StageKey):
    """A worker claims a stage. The answer is the StageInput, or 409 when there is none for it.

    With a `gpu_class` it gets the stage that is next in the class, which may belong to another run than it names.
    """

    worker: str = Field(min_length=1, max_length=200)
    gpu_class: str = Field(default="", description="the class of the queue that brought the message, if it was one")
    claim_id: Annotated[str, AfterValidator(_identity)] | Literal[""] = Field(
        default="", description="a UUID that the worker makes; the same again is the same claim, not another one"
    )


class Heartbeat(StageKey):
    """The stage is still being worked on."""


class ProgressReport(StageKey):
    """The progress of a stage since the last report, oldest line first."""

    lines: list[Progress] = Field(min_length=1, max_length=500)


class HeartbeatAnswer(Document):
    """The workbench's answer to a heartbeat or progress; `cancel` asks the worker to stop the stage."""

    cancel: bool = False


class EndpointAccess(Document):
    """What the holder of a claim needs to speak to the workload's endpoint; `inside` are hosts that may be private.

    `refused` says in a sentence why it may not. The key is for this claim alone: it is kept in memory, never written.
    """

    key: str = Field(default="", repr=False)
    inside: list[str] = []
    refused: str = ""


class Outcome(StageKey):
    """How the attempt ended: exactly one of a result document, a failure, a death, a cancel or a hand-back.

    `died` is a sentence: the process ended without a result or a failure, and the stage may be tried again.
    `handed_back`: the worker is stopping. The stage is tried again, and this attempt does not count.
    """

    result: dict[str, Any] | None = None
    failure: StageFailure | None = None
    died: str = ""
    cancelled: bool = False
    handed_back: bool = False
    artifacts: list[Artifact] = []
    receipts: dict[str, str] = Field(default={}, description="by an artifact's SHA-256, what its upload was answered")
    next_claim_id: Annotated[str, AfterValidator(_identity)] | Literal[""] = Field(
        default="", description="with a result: a claim of the run's next stage, if the run is next in its class"
    )


class Hello(Document):
    """A worker is alive and serves these GPU classes."""

    worker: str = Field(min_length=1, max_length=200)
    gpu_classes: list[Annotated[str, Field(min_length=1, max_length=16)]] = Field(min_length=1, max_length=16)
    memory_gib: float | None = Field(None, gt=0, description="of its smallest GPU; on a CPU what a stage may take")
