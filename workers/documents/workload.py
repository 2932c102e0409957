"""The workload: a model, its traffic and its promises. Browser, API, command line and worker share this document."""

import re
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, field_validator, model_validator

from workers.documents import quality_text
from workers.documents.base import Document
from workers.documents.endpoint import Endpoint
from workers.documents.gpu_class import GpuClass
from workers.documents.model import CountedUnit
from workers.documents.traffic import MAX_USERS, Count, Number, Traffic

Metric = Literal["ttft", "ttf_n", "tpot", "itl", "e2e", "throughput", "batch_latency", "cost_per_mtok"]
BaselineRunner = Literal["eager", "compiled", "vllm"]
AfterRunner = Literal["workbench", "vllm"]
Precision = Literal["fp32", "bf16", "fp16", "int8", "fp8", "nvfp4", "int4", "mxfp4"]

TITLES: dict[str, str] = {
    "ttft": "TTFT",
    "tpot": "TPOT",
    "itl": "ITL",
    "e2e": "end-to-end latency",
    "throughput": "throughput",
    "batch_latency": "batch latency",
    "cost_per_mtok": "cost per million tokens",
}


def metric_title(metric: str, n: int | None = None) -> str:
    """The metric's name for people: `TTF64`, `TPOT`, `batch latency`."""
    return f"TTF{n}" if metric == "ttf_n" else TITLES.get(metric, metric)


MAX_MINUTES = 240
TOKEN_METRICS: tuple[Metric, ...] = ("ttft", "ttf_n", "tpot", "itl")
"""Metrics of generated tokens, which only a model that generates has."""
BETWEEN_TOKENS: tuple[Metric, ...] = ("tpot", "itl")
"""Metrics that take two tokens of one request."""


def unit_of(metric: str, counted: CountedUnit = "tokens") -> str:
    """ms for times; throughput and cost are by what the model gives: `images/s`, `USD/M images`, `USD/Mtok`."""
    cost = "USD/Mtok" if counted == "tokens" else f"USD/M {counted}"
    return {"throughput": f"{counted}/s", "cost_per_mtok": cost}.get(metric, "ms")


class Objective(Document):
    """One promise of the SLA: `metric` at `percentile` on the right side of `limit`, or its median relative to today.

    `at_least_faster` stands in place of a limit: the ratio of the medians before and after, above 1 when after is
    better, which for throughput means more of it.

    ttft, ttf_n, tpot, itl, e2e and batch_latency are in ms. throughput is in what the model gives per second, tokens/s
    or images/s, and cost_per_mtok in USD for a million of them. Unless stated, the unit becomes that of the model.
    """

    metric: Metric
    n: Count | None = Field(default=None, ge=1, le=100_000, description="which token, for ttf_n")
    percentile: Number = Field(default=50, ge=1, le=99.99)
    limit: Number | None = Field(default=None, gt=0)
    at_least_faster: Number | None = Field(
        default=None, ge=1, le=1000, description="in place of a limit: how many times better than today, in the median"
    )
    unit: str = ""
    direction: Literal["at_most", "at_least", ""] = ""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.metric == "ttf_n" and self.n is None:
            raise ValueError("n: ttf_n needs n, the number of the token that is waited for")
        if self.metric != "ttf_n" and self.n is not None:
            raise ValueError(f"n: only ttf_n takes n, not {self.metric}")
        if self.limit is None and self.at_least_faster is None:
            raise ValueError("limit: is required")
        if self.limit is not None and self.at_least_faster is not None:
            raise ValueError("limit: give a limit or times faster (at_least_faster), not both")
        if self.at_least_faster is not None and self.percentile != 50:
            raise ValueError("percentile: times faster (at_least_faster) is judged by medians; leave it at 50")
        if self.at_least_faster is not None and self.metric == "cost_per_mtok":
            raise ValueError("at_least_faster: a cost is promised by a limit")
        units = [unit_of(self.metric, counted) for counted in get_args(CountedUnit)]
        if self.unit not in ("", *units):
            raise ValueError(f"unit: {self.metric} is measured in {units[0]}, not {self.unit}")
        direction = "at_least" if self.metric == "throughput" else "at_most"
        if self.direction not in ("", direction):
            raise ValueError(f"direction: {self.metric} is promised {direction.replace('_', ' ')} a limit")
        self.direction = direction  # type: ignore[assignment]
        self.__dict__["unit"] = self.unit or units[0]  # not among the fields set, since nobody stated it
        return self

    def counting(self, counted: CountedUnit) -> Self:
        """The promise about a model that gives `counted`. Raises ValueError where another unit is stated."""
        unit = unit_of(self.metric, counted)
        if "unit" in self.model_fields_set and self.unit != unit:
            raise ValueError(f"{self.metric} of this model is measured in {unit}, not {self.unit}")
        return self.model_copy(update={"unit": unit})

    @property
    def title(self) -> str:
        """The metric's name for people: `TTF64`."""
        if self.metric == "cost_per_mtok" and self.unit != unit_of(self.metric):
            return f"cost per million {self.unit.removeprefix('USD/M ')}"
        return metric_title(self.metric, self.n)

    @property
    def label(self) -> str:
        """The promise's name for people: `TTF64 p50`."""
        return f"{self.title} p{self.percentile:g}"

    def limit_beside(self, before: float | None) -> float | None:
        """The limit in the metric's unit; that of a relative promise follows from the median before."""
        if self.at_least_faster is None or before is None:
            return self.limit
        return before * self.at_least_faster if self.direction == "at_least" else before / self.at_least_faster


class Constraints(Document):
    """Limits of the optimisation: GPU classes, precisions, excluded variants, which plan is preferred, minutes."""

    precisions: list[Precision] = Field(
        default=["bf16", "fp16", "fp32", "int8"],
        min_length=1,
        max_length=16,
        description="what a plan may compute in and hold weights in; those that round weights (int8, fp8, nvfp4, int4, "
        "and of experts mxfp4) are kept only within the quality loss",
    )
    gpu_classes: list[GpuClass] = Field(default=["h200", "h100", "cpu"], min_length=1, max_length=16)
    exclude: list[Annotated[str, Field(min_length=1, max_length=64)]] = Field(
        default=[], max_length=64, description="variants that may not be used, by their names, such as megakernel"
    )
    prefer: Literal["cheapest", "fastest"] = Field(
        default="cheapest", description="of the plans that keep every promise, the cheapest by the token or the fastest"
    )
    minutes: Number = Field(default=6, gt=0, le=MAX_MINUTES, description="time to spend on the whole run")
    strict_minutes: bool = Field(
        default=False, description="end a run with its minutes; else a plan that may keep the promises may double them"
    )
    max_quality_loss: Number | None = Field(
        default=None,
        ge=0,
        le=1,
        description="largest rise of the top-1 disagreement rate against the float32 model over the baseline's own; "
        "a tenth of it, in nats, bounds the rise of the mean KL divergence. Unless stated half of the baseline's own "
        "distance from float32 on the text, and 0.005 and 0.00005 nats on trained weights (0.01 and 0.0004 on "
        "generated ones) at least",
    )
    allow_unverified_quality: bool = Field(
        default=False, description="allow lower precision on generated weights, where quality cannot be measured"
    )


class StatedDemand(Document):
    """What the deployment must carry, as the customer states it: GPUs and a month's bill are said for it."""

    users: Count | None = Field(default=None, ge=1, le=10**9, description="users at once who always wait for an answer")
    requests_per_second: Number | None = Field(default=None, ge=0.001, le=10**9)

    @model_validator(mode="after")
    def _stated(self) -> Self:
        if self.users is None and self.requests_per_second is None:
            raise ValueError("users: say how many users there are at once, or how many requests_per_second")
        return self

    @property
    def words(self) -> str:
        """The demand in words: `500 users at once`, `40 requests per second`."""
        users = "one user" if self.users == 1 else f"{self.users:,} users at once" if self.users else ""
        rate = f"{self.requests_per_second:,g} requests per second" if self.requests_per_second else ""
        return " and ".join(filter(None, [users, rate]))


class LoadSearch(Document):
    """Asks a run to put before and after under load, and to find the highest at which every objective holds.

    That is the most users of a closed loop, the highest rate of an open one, up to `traffic.arrivals.rate`, and of
    recorded arrivals the highest speed, up to `traffic.arrivals.speed`.
    """

    most_users: Count = Field(
        default=64,
        ge=2,
        le=MAX_USERS,
        description="users of a closed loop at most, doubled from one; of an open loop the requests served at once",
    )
    demand: StatedDemand | None = Field(default=None, description="what it must carry; the report begins with it")


class Deployment(Document):
    """The customer's present deployment, as the customer states it."""

    metric: Metric = "ttf_n"
    n: Count | None = Field(default=None, ge=1)
    latency_ms: Number = Field(ge=0.001, le=10**8)
    gpu: str = Field(min_length=1, max_length=64)
    usd_per_hour: Number = Field(ge=0.001, le=10**6)
    tokens_per_second: Number | None = Field(
        default=None, ge=0.001, le=10**9, description="tokens, or what else the model gives, per second"
    )


class Sla(Document):
    """The `--sla` file: a workload without its model."""

    version: Literal[1] = 1
    name: str = Field(default="", max_length=120)
    traffic: Traffic = Traffic()
    load: LoadSearch | None = Field(default=None, description="a run measures no load unless stated")
    objectives: list[Objective] = Field(min_length=1, max_length=16)
    constraints: Constraints = Constraints()
    baseline_runner: BaselineRunner = Field(
        default="eager",
        description="what runs today: transformers, eager or under torch.compile; vllm, before under load, is a server "
        "of vLLM's that the worker starts",
    )
    after_runner: AfterRunner = Field(
        default="workbench",
        description="what runs the plan under load: this workbench's server or runner; vllm, the server of vLLM's that "
        "is before, with the plan by its plug-in",
    )
    endpoint: Endpoint | None = Field(
        default=None, description="a server of yours, measured as before beside the baseline runner"
    )
    present: Deployment | None = None
    duty_cycle: Number = Field(default=1.0, ge=0.001, le=1, description="share of the hour the GPU serves this traffic")
    quality_text: str = Field(
        default="",
        max_length=quality_text.MAX_CHARACTERS,
        description="text that quality is measured on: plain, or JSON Lines or an array of texts or chats",
    )

    @property
    def baseline_plan_runner(self) -> Literal["eager", "compiled"]:
        """The runner of today's plan. vLLM is no plan's runner: without load, eager stands for what runs today."""
        return "eager" if self.baseline_runner == "vllm" else self.baseline_runner

    @property
    def compared_with(self) -> str:
        """What a plan is compared with without load: `before`, or generate where vLLM is before, under load alone."""
        return "generate of transformers" if self.baseline_runner == "vllm" else "before"

    @field_validator("quality_text")
    @classmethod
    def _readable(cls, text: str) -> str:
        return quality_text.check_text(text)

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        seen: set[tuple[str, int | None, float, bool]] = set()
        for index, objective in enumerate(self.objectives):
            relative = objective.at_least_faster is not None
            key = (objective.metric, objective.n, objective.percentile, relative)
            if key in seen:
                raise ValueError(f"objectives[{index}].metric: {objective.label} is promised twice; remove one of them")
            seen.add(key)
        return self.check_against(self.traffic)

    def check_against(self, traffic: Traffic) -> Self:
        """The SLA itself. Raises ValueError for a promise about tokens that no request of `traffic` has."""
        longest = traffic.longest_output
        if longest is None:
            return self
        has = f"but an answer has {longest} (traffic.output_tokens)"
        for index, objective in enumerate(self.objectives):
            if objective.n is not None and objective.n > longest:
                raise ValueError(f"objectives[{index}].n: {objective.label} asks for token {objective.n}, {has}")
            if objective.metric in BETWEEN_TOKENS and longest < 2:
                raise ValueError(f"objectives[{index}].metric: {objective.label} is a time between tokens, {has}")
        return self


class Workload(Sla):
    """An SLA together with the model it is about.

    `model` is the name of a catalogue entry, or a digest of an uploaded model: the content digest names exactly one,
    and the model digest the newest that has it.
    """

    model: str = Field(min_length=1, max_length=128)

    @model_validator(mode="after")
    def _measurable(self) -> Self:
        field = self.traffic.only_under_load
        if self.traffic.recording and not re.fullmatch("[0-9a-f]{64}", self.traffic.recording):
            raise ValueError(
                "traffic.recording: a run names a recording by its SHA-256, once the file was handed in; "
                "`workbench submit` hands in a file that it names by its path"
            )
        if field and self.load is None:
            raise ValueError(
                f"traffic.{field}: a run without load measures equal requests; for this traffic say how many users "
                "there are at most (load.most_users)"
            )
        if self.after_runner == "vllm" and self.baseline_runner != "vllm":
            raise ValueError(
                "after_runner: vllm with the plan is measured beside vllm without it; name vllm as baseline_runner too"
            )
        if self.baseline_runner == "vllm":
            self._check_vllm()
        return self

    def _check_vllm(self) -> None:
        if self.load is None:
            raise ValueError(
                "baseline_runner: vllm is measured under load alone; say how many users there are at most "
                "(load.most_users), or name another one"
            )
        relative = next((objective for objective in self.objectives if objective.at_least_faster is not None), None)
        if relative:
            raise ValueError(
                f"baseline_runner: {relative.label} at_least_faster is judged without load, beside transformers and "
                "not vllm; give a limit"
            )
