"""The snapshot of a run that a report keeps."""

from typing import Literal

from pydantic import Field

from workbench.runs.services import StageTime
from workers.documents.base import Document
from workers.documents.model import ModelManifest
from workers.documents.prices import PriceBook
from workers.documents.stages import Results
from workers.documents.workload import Workload


class Snapshot(Document):
    """A run with everything its pages show, so that it reads the same years later. Times are ISO 8601 UTC."""

    version: Literal[1] = 1
    run_id: str
    customer: str = ""
    logo: str = Field("", pattern=r"^(data:image/png;base64,[A-Za-z0-9+/=]+)?$")
    created_at: str
    finished_at: str
    gpu_class: str
    workload: Workload
    model: ModelManifest
    prices: PriceBook
    stages: list[StageTime]
    results: Results

    @property
    def taken(self) -> dict[str, float]:
        """Seconds that each stage before the report took."""
        return {stage.stage: stage.duration_s for stage in self.stages if stage.stage != "report"}
