"""The input and the result of each stage, in the order of the pipeline."""

from typing import Any, Literal, get_args

from pydantic import Field

from workers.documents.base import Artifact, Document, Verdict
from workers.documents.endpoint_result import EndpointResult
from workers.documents.gpu_class import Feasibility, OnGpus
from workers.documents.left_out import LeftOut
from workers.documents.load import UnderLoadResult
from workers.documents.measurement import Candidate, Ceilings, Distribution, Environment, Interval, ServedIds
from workers.documents.model import CountedUnit, Kind, ModelManifest
from workers.documents.prediction import ComparedFigure, Prediction
from workers.documents.prices import PriceBook, PriceResult
from workers.documents.profile import PlanProfile, ProfileResult
from workers.documents.quality import Quality
from workers.documents.recording import Recording
from workers.documents.speedup import Speedup
from workers.documents.workload import Objective, Workload

Stage = Literal["admit", "baseline", "profile", "explore", "compose", "verify", "load", "price", "report"]
STAGES: tuple[Stage, ...] = get_args(Stage)
GPU_STAGES: tuple[Stage, ...] = ("admit", "baseline", "profile", "explore", "compose", "verify", "load")
"""Stages that run in a child process on a GPU host; price and report need no torch and run with the ledger."""
OPTIONAL_STAGES: tuple[Stage, ...] = ("load",)
"""Stages that only some workloads ask for, and without whose result a run goes on; it then holds a sentence alone."""


def stages_of(load: bool) -> tuple[Stage, ...]:
    """The stages of a run; `load` says whether its workload asks for load."""
    return tuple(stage for stage in STAGES if load or stage != "load")


RunState = Literal["queued", "running", "done", "failed", "cancelled", "lost"]


class AdmitResult(Document):
    kind: Kind
    family: str
    architecture: str
    parameters: int
    weight_bytes: int
    kv_bytes_per_token: int
    dtype: str
    classes: list[Feasibility]
    predicted: Prediction | None = Field(default=None, description="of the plan, before anything is measured")
    tensor_parallel_size: Literal[1, 2, 4] = Field(
        default=1, description="the GPUs that the model is sharded over as it runs today: the fewest that hold it"
    )
    why_several: str = Field(default="", description="why the run takes several GPUs though fewer are allowed as well")
    notes: list[str] = []


Placement = Literal["tensor_parallel", "pipeline_parallel"]
"""How transformers runs a model over several GPUs: attention and MLP of each layer sharded over all, or whole layers on
one GPU after the other, as `device_map` places them."""


class BaselineResult(Document):
    """The measurement of what the customer runs today. `placement` and the rest count where it takes several GPUs."""

    environment: Environment
    runner: str
    dtype: str
    requests: int
    distributions: list[Distribution]
    tokens_per_second: float
    primary: Interval | None = Field(default=None, description="the median of the first objective's metric")
    keeps: Verdict | None = Field(default=None, description="on the promises with a limit, by these requests")
    peak_memory_gib: float | None = None
    placement: Placement = Field(default="tensor_parallel", description="the way that counts as what runs today")
    placements: dict[Placement, float] = Field(
        default={}, description="the first objective's metric by each way, of two requests"
    )
    no_room: bool = Field(default=False, description="the faster way leaves no memory for a plan, so the other counts")


class ExploreResult(Document):
    environment: Environment
    ceilings: Ceilings
    candidates: list[Candidate]
    sentence: str = Field(default="", description="why some of the model's operations were not explored")


Skipped = Literal["time", "prediction"]
"""Time was short, or by what is predicted or known of it another plan is as good."""


class PlanTrial(Document):
    """A whole-model plan that was tried: a quick measurement, and why it was or was not taken."""

    label: str
    summary: str = Field(default="", description="what the plan runs, in a sentence")
    plan: dict[str, Any]
    primary: Interval | None = Field(default=None, description="the first objective's metric, quick measurement")
    unit: str = "ms"
    predicted: float | None = Field(default=None, description="of the same metric, modelled before the plan was built")
    tokens_per_second: float | None = Field(default=None, description="in the quick measurement")
    keeps: Verdict | None = Field(default=None, description="on the promises with a limit, in the quick measurement")
    build_seconds: float | None = None
    gate: str
    chosen: bool = False
    skipped: Skipped | None = Field(default=None, description="why a plan that could run has no figure")
    reason: str = ""
    seconds_wanted: float | None = Field(
        default=None, description="what building and measuring it takes, where that time was not left"
    )
    notes: list[str] = Field(default=[], description="what was timed in the whole model to find the plan's parts")


class PeerTrial(Document):
    """Another engine on the same weights, prompts and traffic as the plans: measured beside them, never one of them.

    `gate`: pass; fail (it served other ids), error, or refused (not measured); `sentence` says which in words.
    `settings` are what the engine said it runs with.
    """

    label: str
    peer: Literal[True] = True
    version: str = ""
    settings: dict[str, Any] = {}
    primary: Interval | None = Field(default=None, description="the first objective's metric, quick measurement")
    unit: str = "ms"
    start_seconds: float | None = None
    served_ids: ServedIds | None = None
    gate: str
    sentence: str


class ComposeResult(Document):
    environment: Environment
    trials: list[PlanTrial]
    peers: list[PeerTrial] = []
    steps: list[PlanTrial] = Field(default=[], description="the kernels plan with ever more groups of its variants")
    plan: dict[str, Any]
    choice: str = Field(default="", description="the alternatives where the cheapest plan is not the fastest")


class ObjectiveOutcome(Document):
    """One objective before and after: `over` of `samples` lie beyond the limit, in `requests` served batches.

    `needed` batches without a sample beyond the limit prove the percentile at 99 % confidence. Documents that lack
    `requests` counted samples. `missed_in`: processes whose own requests after miss an objective that all of them meet.
    `void`: another program used the GPU meanwhile, or kept the CPU busy, so there are no samples that count. `ratio`:
    of a promise relative to before, the ratio of the medians that it is judged by; no sample lies beyond a limit then,
    and `needed` is pairs. `medians` are those of the metric after, one of each process."""

    objective: Objective
    before: float | None
    after: float | None
    verdict_before: Verdict
    verdict: Verdict
    samples: int
    over: int
    requests: int | None = None
    missed_in: int = 0
    void: bool = False
    ratio: Interval | None = None
    needed: int
    medians: list[float] = []


class PlanCheck(Document):
    """A plan that verify measured beside what runs today, and why it is no change to recommend ("" when it is one)."""

    label: str
    confirmed: bool
    reason: str = ""
    speedup: Speedup | None = Field(default=None, description="null where the plan is what runs today")
    quality: Quality | None = None


class VerifyResult(Document):
    """The plan before and after. Where no plan was confirmed, `recommended` is false and `plan` is what runs today:
    both sides are then its one measurement, without a speedup. `checks` are the plans that were measured, in turn.
    `refusal` says why the composed plan's figures do not count: it serves other ids, or beats the limits of its chip.
    """

    environment: Environment
    plan: dict[str, Any]
    not_served: str = Field(default="", description="why the workbench's own server cannot serve the plan")
    before: list[Distribution]
    after: list[Distribution]
    compared_with: str = Field(default="before", description="what the values before are called")
    turns: int = Field(
        default=0, description="of each side, where both did not fit into memory; 0 where their requests alternated"
    )
    gpus_before: int = Field(default=1, description="the GPUs that what runs today was measured on together")
    tokens_per_second_before: float
    tokens_per_second_after: float
    goodput_after: float | None = None
    recommended: bool = True
    checks: list[PlanCheck] = []
    speedup: Speedup | None
    outcomes: list[ObjectiveOutcome]
    quality: Quality | None
    served_ids: ServedIds | None = None
    refusal: str = ""
    profile: PlanProfile | None = Field(default=None, description="where the plan spends its time")
    no_profile: str = Field(default="", description="why there is no profile of the plan, where it was confirmed")
    counted: CountedUnit = Field(default="tokens", description="what the rates per second count")
    verdict: Verdict
    minutes_wanted: float | None = Field(
        default=None, description="what the workload would have to allow for the plans that were left out for time"
    )
    sentence: str
    endpoint: EndpointResult | None = Field(default=None, description="by the worker, at the workload's endpoint")

    @property
    def gpus(self) -> int:
        return int(self.plan.get("tensor_parallel_size", 1))

    @property
    def order(self) -> str:
        """How the requests before and after followed each other, in words."""
        return f"in {self.turns} turns of each" if self.turns else "interleaved"


class ReportResult(Document):
    html: Artifact
    plan: Artifact
    verdict: Verdict
    headline: str
    predicted: list[ComparedFigure] = Field(default=[], description="what was predicted, beside what was measured")


class Results(Document):
    """The stages done so far."""

    admit: AdmitResult | None = None
    baseline: BaselineResult | None = None
    profile: ProfileResult | None = None
    explore: ExploreResult | None = None
    compose: ComposeResult | None = None
    verify: VerifyResult | None = None
    load: UnderLoadResult | None = None
    price: PriceResult | None = None
    report: ReportResult | None = None


class StageInput(OnGpus):
    """Everything a stage needs but the model's files, which lie in the directory given beside it."""

    version: Literal[1] = 1
    run_id: str
    stage: Stage
    attempt: int
    workload: Workload
    model: ModelManifest
    prices: PriceBook
    results: Results = Results()
    ceilings: dict[str, Ceilings] = Field(
        default={}, description="of the newest runs, by class of one GPU, for admit and profile"
    )
    seconds_left: float = 600
    taken: dict[str, float] = Field(default={}, description="seconds that each earlier stage took")
    organisation: str = Field(default="", description="whose compiler caches the stage uses")
    recording: Recording | None = Field(default=None, description="of the traffic, which the load stage replays")
    left_out: list[LeftOut] = Field(default=[], description="by the worker: what ended the stage's process before")
    trials_before: list[PlanTrial] = Field(default=[], description="of the run whose search compose resumes")

    @property
    def tensor_parallel_size(self) -> int:
        return self.results.admit.tensor_parallel_size if self.results.admit else 1

    @property
    def placement(self) -> Placement:
        return self.results.baseline.placement if self.results.baseline else "tensor_parallel"


class Progress(Document):
    """One progress line of a stage. `partial` may carry early results."""

    fraction: float = Field(ge=0, le=1)
    message: str
    partial: dict[str, Any] | None = None


class StageFailure(Document):
    """Why a stage gave up, as one sentence; `refused` when the customer's input is the cause."""

    sentence: str
    refused: bool = False
    file: str = ""
    field: str = ""
