"""The API's schemas of runs."""

import uuid
from datetime import datetime
from typing import Annotated, Any

from ninja import Field, Schema

from workbench.runs import run_queue, services
from workbench.runs.models import Run, StageRun
from workbench.runs.tags import LONGEST_TAG, MAX_TAGS
from workbench.short_text import ShortText
from workers.documents.base import Document, Verdict
from workers.documents.measurement import Interval
from workers.documents.stages import Results, RunState, StageFailure

TagName = Annotated[ShortText, Field(min_length=1, max_length=LONGEST_TAG, pattern="^[^,]+$")]
"""Without a comma, which stands between tags in a form."""

Tags = Annotated[list[TagName], Field(max_length=MAX_TAGS, description="words to find the run by")]


class RunLabels(Document):
    """What a run is found by: these tags and no others."""

    tags: Tags


class NewRun(Document):
    """Which workload to run, and on which of its GPU classes (default: the first that has a worker)."""

    workload: uuid.UUID
    gpu_class: str | None = None
    tags: Tags = []
    search_again: bool = Field(
        default=False, description="search for a plan even where a run of the last twelve hours has met the promise"
    )


class StageSummary(Schema):
    """How far a stage is; `progress` from 0 to 1."""

    stage: str
    state: str
    attempt: int
    progress: float
    message: str
    started_at: datetime | None
    finished_at: datetime | None


class RunSummary(Schema):
    """A run in a list."""

    id: uuid.UUID
    workload: uuid.UUID = Field(alias="workload_id")
    workload_name: str = Field(alias="workload.name")
    project: str = Field(alias="workload.project")
    model_name: str = Field(alias="workload.model.name")
    state: RunState
    stage: str
    attempt: int
    gpu_class: str
    verdict: Verdict | None
    tags: list[str]
    cancel_requested: bool
    error: StageFailure | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @staticmethod
    def resolve_tags(run: Run) -> list[str]:
        return [tag.name for tag in run.tags.all()]

    @staticmethod
    def resolve_verdict(run: Run) -> str | None:
        return run.verdict or None


class PlaceInLine(Schema):
    """A run that waits for its first stage: `position` 1 is next of the `length` runs that wait for the class.

    `seconds` until it begins is computed from the runs that ended last; null when there are none, or no worker.
    """

    position: int
    length: int
    seconds: float | None


class RunDetail(RunSummary):
    """A run with its stages. `waiting` says why a queued run has not started."""

    stages: list[StageSummary]
    waiting: str
    place: PlaceInLine | None

    @staticmethod
    def resolve_stages(run: Run) -> list[StageRun]:
        return list(run.stages.defer("result", "partial"))

    @staticmethod
    def resolve_place(run: Run) -> run_queue.QueuePosition | None:
        return run_queue.place_of(run)

    @staticmethod
    def resolve_waiting(run: Run) -> str:
        return services.waiting_for(run)


class EventItem(Schema):
    """One line of a run's log."""

    id: int
    at: datetime
    stage: str
    attempt: int
    kind: str
    message: str
    data: dict[str, Any] | None


class Events(Schema):
    """Events in order; ask again with `after` = `last` for the next ones."""

    items: list[EventItem]
    last: int


class StageDocument(StageSummary):
    """A stage with its result, or what is already known of it."""

    partial: dict[str, Any] | None
    result: dict[str, Any] | None


class ResultDocument(Schema):
    """Everything the stages that are done have found."""

    run: uuid.UUID
    state: RunState
    verdict: Verdict | None
    results: Results


class Comparison(Schema):
    """A run held against a kept one. `regressed`: it is worse in a metric of an objective by more than was asked."""

    run: uuid.UUID
    kept: uuid.UUID
    ratios: dict[str, Interval] = Field(
        description="by metric, the run over the kept one: above 1 it is worse; the intervals hold together with 99 %"
    )
    regressed: bool
    sentence: str
