"""What load tests found: of one load, of the search for the highest that holds, and of both sides of a run.

Times in ms; definitions in `docs/method.md`.
"""

from typing import Any, Literal

from pydantic import Field

from workers.documents.base import Document, Verdict
from workers.documents.endpoint import Api
from workers.documents.measurement import Environment, Interval, ServedIds, Telemetry
from workers.documents.recording import Recording
from workers.documents.traffic import Traffic
from workers.documents.workload import Objective

OF_WINDOWS = ("throughput", "cost_per_mtok")
"""Metrics of the whole server; under load their samples are seconds. More load brings them nearer to a promise."""


class LoadMetric(Document):
    """One metric over all requests that gave it, in `samples` values: percentiles keyed `p50`, with 95 % intervals."""

    metric: str
    n: int | None = None
    unit: str
    samples: int
    percentiles: dict[str, Interval]


class LoadFailure(Document):
    """How many requests failed in one way, and the sentence about the first of them."""

    kind: str
    count: int
    sentence: str


class LoadOutcome(Document):
    """One objective: its value, and of how many requests any sample lies beyond the limit. Failed requests do."""

    objective: Objective
    value: float | None
    verdict: Verdict
    requests: int
    over: int
    needed: int = Field(description="requests without one beyond the limit that prove it")
    alike: float = Field(
        default=1, description="requests that count as one: those that queue or are answered together are alike"
    )


class GeneratorLag(Document):
    """The generator's own delay in ms: how late it turned to requests, and how late its event loop came to ticks.

    Each figure is that of the latest of its processes.
    """

    send_p50: float
    send_p99: float
    send_max: float
    loop_p99: float
    limit: float
    void: bool
    processes: int = Field(default=1, description="processes that sent the load")


class LoadTokens(Document):
    """Tokens of the counted requests, as the server counted them; `several`: requests with fewer events than tokens."""

    prompt_wanted: int
    prompt: int | None
    output_wanted: int
    output: int
    several: int
    uncounted: int = Field(description="requests without the server's own count; one event was taken for one token")


class LoadResult(Document):
    """A load test of one server. Rates are over the steady part, `seconds` from the warm-up's end to the last send."""

    version: Literal[1] = 1
    at: str = Field(description="when sending began, ISO 8601 UTC")
    url: str
    model: str
    api: Api
    traffic: Traffic
    host: str = Field(description="the machine that sent, not the one that served")
    warm_up_seconds: float
    seconds: float
    requests: int = Field(description="counted ones, meant to be sent in the steady part")
    completed: int
    cancelled: int
    ended_early: int
    failures: list[LoadFailure]
    tokens: LoadTokens
    metrics: list[LoadMetric]
    requests_per_second: float
    tokens_per_second: float = Field(description="output tokens that came in the steady part, by its seconds")
    tokens_per_second_interval: Interval | None = Field(
        default=None, description="tokens_per_second with its 95 % interval by batch means; None in a short test"
    )
    goodput: float | None = Field(description="requests per second that met every objective about single requests")
    in_flight: float = Field(description="mean number of open requests")
    lag: GeneratorLag
    outcomes: list[LoadOutcome]
    verdict: Verdict | None = Field(description="None where the measurement is void or nothing was judged")
    telemetry: Telemetry | None = Field(default=None, description="of the server's device meanwhile, where it is ours")
    notes: list[str]

    @property
    def users(self) -> int:
        """The users of the closed loop; of an open one the requests that were open on average, at least one."""
        return max(1, round(self.in_flight)) if self.traffic.open_loop else self.traffic.concurrency

    @property
    def level(self) -> float:
        """The load that was put on: users of a closed loop, requests per second, or the speed of a recording."""
        return self.speed or self.rate or self.users

    @property
    def rate(self) -> float | None:
        """Requests per second that were drawn; None in a closed loop and where arrivals are recorded."""
        return self.traffic.rate

    @property
    def speed(self) -> float | None:
        """How many times as fast as recorded requests came; None where arrivals are not recorded."""
        return self.traffic.speed

    def median(self, metric: str) -> float | None:
        """The metric's median; None where it was not measured."""
        spreads = (entry.percentiles for entry in self.metrics if entry.metric == metric and entry.percentiles)
        return next((percentiles["p50"].value for percentiles in spreads), None)

    @property
    def failed(self) -> int:
        return sum(failure.count for failure in self.failures)

    @property
    def prompt_tokens_per_second(self) -> float | None:
        """Prompt tokens of the counted requests, by the seconds of the steady part; None where none were counted."""
        return self.tokens.prompt / self.seconds if self.tokens.prompt is not None and self.seconds else None


class Saturation(Document):
    """The load from which more hardly brings more tokens, by the slope of throughput over the load.

    `slopes` has one value for each pair of neighbouring loads: by what share of the tokens per second and user of the
    first load each further user added to the whole. `users` is the first load from which the slope to every higher one
    is below `least`.
    In an open loop requests per second stand in the place of users, of recorded arrivals the speed.
    """

    users: float
    least: float
    slopes: list[float]


class LimitResult(Document):
    """The highest load at which every objective held, and every load that was tried, by rising load.

    Of a closed loop that is `users` of `most`, of an open one `rate` of `most_rate`, in requests per second, and of
    recorded arrivals `speed` of `most_speed`, in times as fast as recorded; `users` are then those that were open on
    average. All are 0 where none was met. `confidence` is that of the whole search;
    each load was judged with `confidence_each`. `unfinished` says in a sentence why the search ended before its rule
    did; "" where it did not.
    """

    version: Literal[1] = 1
    users: int
    most: int
    rate: float | None = None
    most_rate: float | None = None
    speed: float | None = None
    most_speed: float | None = None
    confidence: float
    confidence_each: float
    loads: list[LoadResult]
    saturation: Saturation | None = Field(default=None, description="None where throughput still rose at every load")
    unfinished: str = ""

    @property
    def missed(self) -> bool:
        """Whether all loads were shown to miss, or the lowest was and more load brings what it misses no nearer."""
        lowest = bool(self.loads) and self.loads[0].verdict == "missed" and not self.nearer_above
        return lowest or (bool(self.loads) and all(load.verdict == "missed" for load in self.loads))

    @property
    def nearer_above(self) -> bool:
        """Whether more load brings nearer all that the lowest load was shown to miss: throughput, cost."""
        outcomes = self.loads[0].outcomes if self.loads else []
        lowest = {outcome.objective.metric for outcome in outcomes if outcome.verdict == "missed"}
        return bool(lowest) and lowest <= {*OF_WINDOWS}

    @property
    def held(self) -> LoadResult | None:
        """The measurement at the highest load that holds; None where none does."""
        return next((load for load in self.loads if load.level == self.level), None)

    @property
    def level(self) -> float:
        """The highest load that holds: users, requests per second or a speed; 0 where none does."""
        return next((value for value in (self.speed, self.rate) if value is not None), self.users)

    @property
    def most_level(self) -> float:
        """The highest load that was to be tried, as `level`."""
        return self.most_speed or self.most_rate or self.most


class LoadedServer(Document):
    """What was put under load, and on whose hardware.

    `kind`: `server`, this workbench's server; `batches`, a runner that serves batches formed as requests arrive;
    `vllm`, started for this run; `endpoint`, a server of the customer's. `hardware` is the device, or what its owner
    says of it. `settings` are those that vLLM was given, or what this workbench's server chose for the plan. `caveats`
    are sentences about what cannot be compared with the other side.
    """

    kind: Literal["server", "batches", "vllm", "endpoint"]
    label: str = Field(description="a few words, such as `transformers, batches of at most 8`")
    sentence: str = Field(description="what it is and how it forms batches")
    hardware: str
    gpu_class: str = Field(default="", description="whose price counts; empty where the hardware is not ours")
    gpus: int = 1
    version: str = ""
    settings: dict[str, Any] = {}
    caveats: list[str] = []


class LoadCurve(Document):
    """One server under rising load; `sentence` says the highest load that holds and what stands behind it.

    `served_ids` are those of answers at its loads; None where none were judged, as at an endpoint.
    """

    server: LoadedServer
    limit: LimitResult
    sentence: str
    served_ids: ServedIds | None = None


class UnderLoadResult(Document):
    """What the load stage found: before and after under rising load, judged by the same `objectives`.

    `objectives` have limits: that of a promise relative to today follows from the median that verify measured before.
    A side is None where it was not measured; then `notes` say why. A stage that failed leaves its sentence alone.
    """

    environment: Environment | None = None
    traffic: Traffic | None = None
    recording: Recording | None = Field(default=None, description="of the traffic; each load begins at its first line")
    objectives: list[Objective] = []
    before: LoadCurve | None = None
    after: LoadCurve | None = None
    endpoint: LoadCurve | None = Field(default=None, description="by the worker, at the workload's endpoint")
    sentence: str
    choice: str = Field(default="", description="why after is served as it is, where two forms were put under load")
    notes: list[str] = []
