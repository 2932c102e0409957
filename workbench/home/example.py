"""The example result: a committed run on an H200, for readers who have measured nothing yet."""

import json
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

from django.conf import settings

from workbench.intake.services.catalogue import catalogue_manifest
from workbench.runs.services import StageTime, times_since
from workers.documents.model import ModelManifest
from workers.documents.stages import Results
from workers.documents.workload import Constraints, Workload

FILE = Path(settings.BASE_DIR) / "benchmarks" / "results" / "h200" / "llama-3.2-1b.json"


@dataclass(frozen=True)
class Example:
    """A finished run: what was asked, what was found, and how long each stage took. `seconds` is the whole run."""

    workload: Workload
    model: ModelManifest
    results: Results
    stages: list[StageTime]
    device: str
    measured_at: datetime
    commit: str
    seconds: float


@cache
def example() -> Example | None:
    """The example of this installation; None where its file was left out."""
    if not FILE.exists():
        return None
    document = json.loads(FILE.read_text("utf-8"))
    results = Results.model_validate(document["results"])
    if results.verify is None:
        raise ValueError(f"{FILE.name}: the example has no verdict")
    objectives = [outcome.objective for outcome in results.verify.outcomes]
    spans = [
        (stage["stage"], _time(stage["started_at"]), _time(stage["finished_at"])) for stage in document["run"]["stages"]
    ]
    return Example(
        workload=Workload(
            model=document["model"],
            name="Example: time to the first 64 tokens",
            objectives=objectives,
            constraints=Constraints(
                minutes=float(document["sla"].rpartition("minutes: ")[2]),
                max_quality_loss=0.01,  # the default of its time
            ),
        ),
        model=catalogue_manifest(document["model"])[0],
        results=results,
        stages=times_since(min(started for _, started, _ in spans), spans),
        device=document["device"],
        measured_at=_time(document["at"]),
        commit=document["commit"][:7],
        seconds=document["wall_seconds"],
    )


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
