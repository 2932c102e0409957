"""Measurements and where they were made."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import AfterValidator, Field

from workers.documents.base import Basis, Document

MetricKey = tuple[str, int | None]


class OfMetric(Protocol):
    """What is about one metric; `n` is the N of TTF-N."""

    @property
    def metric(self) -> str: ...
    @property
    def n(self) -> int | None: ...


Item = TypeVar("Item", bound=OfMetric)


def metric_key(item: OfMetric) -> MetricKey:
    return item.metric, item.n


def find_metric(items: Iterable[Item], key: MetricKey) -> Item | None:
    return next((item for item in items if metric_key(item) == key), None)


BUSY = 0.2
"""From this share of a CPU on that other programs used, times of the CPU decide no promise as missed."""


class Telemetry(Document):
    """Clocks and power while something was measured; None where the machine does not tell."""

    sm_mhz_median: float | None = None
    sm_mhz_min: float | None = None
    sm_mhz_max: float | None = None
    power_w_median: float | None = None
    power_w_mean: float | None = Field(default=None, description="weighted by time")
    power_gap_s: float | None = Field(default=None, description="the longest time between two readings of power")
    temperature_c_max: float | None = None
    throttle_reasons: list[str] = []
    others_cpu_share: float | None = Field(default=None, description="of the CPU, what other programs used")
    others_gpu_count: int | None = Field(default=None, description="the most other programs that held the GPU at once")
    others_gpu_seconds: float | None = Field(default=None, description="how long any of them was seen; 0: none")
    others_gpu_gib: float | None = Field(default=None, description="the most GPU memory that they held")

    @property
    def void(self) -> str:
        """Why what was measured in this time is void, as a sentence; "" where no other program was seen on the GPU."""
        if not self.others_gpu_seconds:
            return ""
        seen = f"for {self.others_gpu_seconds:.1f} s, with {self.others_gpu_gib or 0:.1f} GiB"
        return f"Another program used the GPU while this was measured ({seen}); measure again when it is idle."


class Confinement(Document):
    """What held the process that measured, in a few words each, and in sentences what did not."""

    held: list[str] = []
    missing: list[str] = []


def _instant(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError(f"{text!r} names no time zone")
    return text


class Environment(Document):
    """The device, the libraries and the commit that a figure was measured with; `at` is ISO 8601 UTC."""

    device: str
    gpu_class: str
    gpu_uuid: str = ""
    lease_id: str = ""
    driver: str = ""
    memory_gib: float | None = None
    versions: dict[str, str]
    commit: str = Field(default="", description="with -dirty behind it where files differed; empty when installed")
    sources: str = Field(default="", description="SHA-256 of the code that measured: of kernels and workers")
    at: Annotated[str, AfterValidator(_instant)]
    telemetry: Telemetry = Telemetry()
    confinement: Confinement | None = Field(default=None, description="as the worker saw it; None in a stage by hand")
    seconds_of_starts_and_loads: float | None = Field(
        default=None,
        description="that the stage's starts of processes and loads of weights took; admit's count in the next stage",
    )

    @property
    def busy_share(self) -> float | None:
        """The share of the measured CPU that other programs used, where it is BUSY or more."""
        share = self.telemetry.others_cpu_share if self.gpu_class == "cpu" else None
        return None if share is None or share < BUSY else share

    def with_busiest(self, others: Sequence[Telemetry]) -> "Environment":
        """The environment with the largest share of the CPU that other programs used in it and in `others`."""
        shares = [seen.others_cpu_share for seen in (self.telemetry, *others) if seen.others_cpu_share is not None]
        busiest = {"others_cpu_share": max(shares, default=None)}
        return self.model_copy(update={"telemetry": self.telemetry.model_copy(update=busiest)})


class Rates(Document):
    """Measured rates of the device in TB/s and TFLOP/s."""

    read_tbps: float
    copy_tbps: float
    matrix_tflops: dict[str, float]


class Ceilings(Rates):
    """Measured limits of the device under settled clocks, and the time of an empty launch in microseconds.

    `burst`: those of single calls after pauses, where clocks are at their highest; None on a CPU and in documents that
    know one regime.
    """

    launch_us: float
    burst: Rates | None = None
    gpu_uuid: str = Field(default="", description="of the GPU that they were measured on; empty on a CPU")
    at: str = Field(default="", description="when they were measured, ISO 8601 UTC")
    basis: Basis = "measured"

    @property
    def of_single_calls(self) -> Rates:
        """The rates that floors of kernels and of single requests are computed from."""
        return self.burst or self


class Distribution(Document):
    """Samples of one metric, with percentiles by sorted[floor(n·p)]; nothing is dropped."""

    metric: str
    n: int | None = None
    unit: str
    samples: list[float]
    percentiles: dict[str, float]
    basis: Basis = "measured"


class Interval(Document):
    """A central value with its 95 % interval."""

    value: float
    low: float
    high: float


class Energy(Document):
    """What one side alone drew: `joules` for each of what the model gives, such as a token, at a mean of `watts`.

    `joules` is None where `reason` says, in a sentence, why the readings of power do not count.
    """

    joules: float | None
    watts: float | None = None
    reason: str = ""


class Candidate(Document):
    """One variant tried for one case: its time, error, gate and the reason it was chosen or not.

    `gate`: pass, fail, impossible (faster than the chip could be), refused (cannot serve the case), error.
    `per_request`: how often the case runs in one request. `summary`: what the variant is. Times in ms.
    """

    id: str
    op: str
    case: dict[str, Any]
    variant: str
    summary: str = ""
    params: dict[str, Any] = {}
    peer: bool = False
    gate: str
    error: float | None = None
    error_limit: float | None = None
    ms: float | None = None
    ms_low: float | None = None
    ms_high: float | None = None
    floor_ms: float | None = None
    floor_share: float | None = None
    tflops: float | None = None
    gbps: float | None = None
    per_request: float = 1
    kernels: list[str] = []
    chosen: bool = False
    late: bool = Field(default=False, description="no time was left to try it")
    reason: str = ""


class ServedIds(Document):
    """Ids of timed requests, teacher-forced through the model as it is served today.

    A logit gap is how far the logit of an id lies below the largest one, in standard deviations of its position. Of a
    plan of lower precision there are the gaps by its own logits as well, which are judged by narrower limits.
    """

    tokens: int
    mean_gap: float
    largest_gap: float
    own_mean_gap: float | None = None
    own_largest_gap: float | None = None
    acceptable: bool
    sentence: str
