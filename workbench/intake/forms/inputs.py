"""The inputs of the workload form. Their names are the paths of the document's fields."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from kernels import registry
from kernels.ops import PARTS
from workers.documents.quality_text import MAX_CHARACTERS
from workers.documents.workload import Constraints, GpuClass, Precision, Sla
from workers.wording.text import capitalised

Choices = list[tuple[str, str]]
METRICS: Choices = [
    ("ttf_n", "Time to first N tokens (TTF-N), ms"),
    ("ttft", "Time to first token (TTFT), ms"),
    ("tpot", "Time per output token (TPOT), ms"),
    ("itl", "Inter-token latency (ITL), ms"),
    ("e2e", "End to end (E2E), ms"),
    ("throughput", "Throughput, tokens or images per second"),
    ("batch_latency", "Latency per batch, ms"),
    ("cost_per_mtok", "Cost per million tokens or images, USD"),
]
LIMITS = {
    metric: f"In {label.rpartition(', ')[2]}, at {'least' if metric == 'throughput' else 'most'}."
    for metric, label in METRICS
}
"""What a limit of each metric is in, which its label ends with."""
RUNNERS: Choices = [
    ("eager", "transformers, eager"),
    ("compiled", "compiled, static cache"),
    ("vllm", "a vLLM server under load, else transformers"),
]
AFTER: Choices = [("workbench", "this workbench's server"), ("vllm", "vLLM with the plan, where vLLM runs today")]
PREFERRED: Choices = [("cheapest", "the cheapest by the token or image"), ("fastest", "the fastest")]
ARRIVALS: Choices = [
    ("", "users of a closed loop"),
    ("closed", "users of a closed loop who pause"),
    ("poisson", "Poisson, an open loop"),
    ("gamma", "gamma, bursts or regular"),
    ("recorded", "as in a recording"),
]
LENGTHS: Choices = [
    ("", "as stated above"),
    ("fixed", "all alike"),
    ("uniform", "uniform"),
    ("log-normal", "log-normal"),
    ("recorded", "as in a recording"),
]
APIS: Choices = [
    ("completions", "completions"),
    ("chat", "chat/completions"),
    ("embeddings", "embeddings, for encoders"),
]


OF_KINDS = ("traffic.arrivals.", "traffic.prompt_lengths.", "traffic.output_lengths.")
"""Parts whose inputs describe one kind each; a script switches off those of the others."""


@dataclass
class Input:
    """One input as the template draws it. `kind`: text, secret, area, number, select, checks or check.

    `about` says more of some choices, by their values. `headings` says under which of them checks stand: those unfold,
    since they are many.
    """

    name: str
    label: str
    kind: str = "number"
    hint: str = ""
    choices: Choices = field(default_factory=list)
    about: Mapping[str, str] = field(default_factory=dict)
    headings: Mapping[str, str] = field(default_factory=dict)
    required: bool = False
    value: Any = ""
    errors: list[str] = field(default_factory=list)
    focus: bool = False

    @property
    def groups(self) -> list[tuple[str, list[tuple[str, str, str]]]]:
        """Each heading with the value, label and explanation of its choices."""
        groups: dict[str, list[tuple[str, str, str]]] = {}
        for choice in self.options:
            groups.setdefault(self.headings.get(choice[0], "Others"), []).append(choice)
        return list(groups.items())

    @property
    def options(self) -> list[tuple[str, str, str]]:
        """The value, label and explanation of each choice."""
        return [(value, label, self.about.get(value, "")) for value, label in self.choices]

    @property
    def id(self) -> str:
        """The name without brackets and dots."""
        return "f-" + re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


def _names(literal: Any, default: Sequence[str]) -> Choices:
    """The default choices first, in their order, since the order that is sent is the order of preference."""
    return [(name, name) for name in dict.fromkeys([*default, *get_args(literal)])]


def _hint(document: Any, name: str) -> str:
    text = document.model_fields[name].description or ""
    return capitalised(text) + "." if text else ""


def _place(variant: registry.Variant) -> int:
    """The position of the variant's heading, which names the part of the work that it does."""
    return [*PARTS, variant.op].index(variant.op)


def general() -> list[Input]:
    return [
        Input("name", "Name", "text", hint="Left empty, the model and the first objective name it."),
        Input(
            "baseline_runner",
            "What runs today",
            "select",
            choices=RUNNERS,
            hint="What the plan is compared with. vLLM is measured under load alone: fill in the users there.",
        ),
        Input("after_runner", "What runs the plan under load", "select", choices=AFTER),
        Input("duty_cycle", "Duty cycle, 0 to 1", hint=_hint(Sla, "duty_cycle")),
    ]


def traffic() -> list[Input]:
    return [
        Input("traffic.prompt_tokens", "Prompt tokens"),
        Input("traffic.output_tokens", "Output tokens", hint="A model that generates no text has none."),
        Input("traffic.batch", "Batch", hint="Requests served together."),
        Input("traffic.concurrency", "Concurrency", hint="Clients that each wait for their answer."),
        Input(
            "load.most_users",
            "Users under load, at most",
            hint="Most users to try. Empty: no load test, unless you fill in one of the next two.",
        ),
        Input("load.demand.users", "Users it must carry", hint="The report says the GPUs and the bill for them."),
        Input("load.demand.requests_per_second", "Or requests per second"),
        Input("traffic.arrivals.kind", "Arrivals under load", "select", choices=ARRIVALS),
        Input(
            "traffic.arrivals.rate",
            "Requests per second, at most",
            hint="Highest rate to try, with Poisson or gamma arrivals. Users are then those served at once.",
        ),
        Input("traffic.arrivals.cv", "Spread of the gaps", hint="Of gamma arrivals: 1 is Poisson, above is burstier."),
        Input(
            "traffic.arrivals.speed",
            "Times as fast as recorded, at most",
            hint="Highest speed to try. Users are then those served at once.",
        ),
        Input("traffic.arrivals.think_s", "Mean pause, seconds", hint="Between an answer and the next request."),
    ]


def recording() -> list[Input]:
    """What is taken from a recording; the form adds the organisation's to the choices."""
    return [Input("traffic.recording", "Recording", "select", choices=[("", "none")])]


def behaviour() -> list[Input]:
    """What load alone has: unequal lengths, sampling, and how answers and users end."""
    return [
        *_lengths("traffic.prompt_lengths", "Prompt"),
        *_lengths("traffic.output_lengths", "Output"),
        Input("traffic.shared_prefix", "Shared beginning, tokens", hint="That all prompts begin with."),
        Input("traffic.sampling.temperature", "Temperature", hint="Left empty, the likeliest token is taken."),
        Input("traffic.sampling.top_p", "Top-p"),
        Input("traffic.sampling.top_k", "Top-k"),
        Input("traffic.cancellations.share", "Users who go away, 0 to 1", hint="Share of the requests; empty: none."),
        Input("traffic.cancellations.after_tokens", "After so many tokens"),
        Input("traffic.time_out_s", "Time-out, seconds", hint="A request that takes longer has failed."),
        Input("traffic.end_of_text", "Answers may end early", "check", hint="Where the model ends the text."),
    ]


def _lengths(at: str, name: str) -> list[Input]:
    """The kind of lengths, and what describes each kind; the page shows those of the chosen one."""
    return [
        Input(f"{at}.kind", f"{name} lengths under load", "select", choices=LENGTHS),
        Input(f"{at}.tokens", f"{name} length, tokens"),
        Input(f"{at}.low", f"{name} length, least"),
        Input(f"{at}.high", f"{name} length, most"),
        Input(f"{at}.median", f"{name} length, median"),
        Input(f"{at}.sigma", f"{name} length, sigma", hint="Standard deviation of the logarithm; 1 is a wide spread."),
        Input(f"{at}.most", f"{name} length, cut to"),
    ]


def objective(index: int, metric: str) -> list[Input]:
    """The inputs of a promise; the page changes the hint of the limit with the metric."""
    at = f"objectives[{index}]"
    return [
        Input(f"{at}.metric", "Metric", "select", choices=METRICS, about=LIMITS),
        Input(f"{at}.n", "N, for TTF-N"),
        Input(f"{at}.percentile", "Percentile"),
        Input(f"{at}.limit", "Limit", hint=LIMITS.get(metric, "")),
        Input(f"{at}.at_least_faster", "Or times faster", hint="Than today, in place of a limit."),
    ]


def constraints() -> list[Input]:
    default = Constraints()
    variants = sorted((variant for variant in registry.variants() if not variant.peer), key=_place)
    return [
        Input(
            "constraints.gpu_classes", "GPU classes allowed", "checks", choices=_names(GpuClass, default.gpu_classes)
        ),
        Input(
            "constraints.precisions",
            "Precisions allowed",
            "checks",
            hint="int8, fp8, nvfp4 and int4 round the weights, and mxfp4 those of experts: such a plan is kept only "
            "within the quality loss. int8 loses about as little as bf16 arithmetic itself.",
            choices=_names(Precision, default.precisions),
        ),
        Input("constraints.prefer", "Plan to prefer", "select", choices=PREFERRED, hint=_hint(Constraints, "prefer")),
        Input("constraints.minutes", "Minutes", hint=_hint(Constraints, "minutes")),
        Input("constraints.strict_minutes", "Strict minutes", "check", hint=_hint(Constraints, "strict_minutes")),
        Input("constraints.max_quality_loss", "Quality loss, at most", hint=_hint(Constraints, "max_quality_loss")),
        Input(
            "constraints.allow_unverified_quality",
            "Allow unverified quality",
            "check",
            hint=_hint(Constraints, "allow_unverified_quality"),
        ),
        Input(
            "constraints.exclude",
            "Variants not to use",
            "checks",
            hint=_hint(Constraints, "exclude"),
            choices=[(variant.name, variant.name) for variant in variants],
            about={variant.name: variant.summary for variant in variants},
            headings={variant.name: capitalised(PARTS.get(variant.op, variant.op)) for variant in variants},
        ),
    ]


def quality() -> list[Input]:
    hint = (
        f"{_hint(Sla, 'quality_text')} At most {MAX_CHARACTERS:,} characters; 4,096 tokens or more are needed. Left "
        "empty, the model's quality.txt is taken, else what the model writes, else random tokens."
    )
    return [Input("quality_text", "Text", "area", hint=hint)]


def endpoint() -> list[Input]:
    key = "An API key, if it wants one. It is kept encrypted, goes to the worker alone and is shown nowhere."
    return [
        Input("endpoint.url", "Address", "text", hint="Such as https://models.example.com/v1."),
        Input("endpoint.model", "Model's name there", "text"),
        Input("endpoint.api", "API", "select", choices=APIS),
        Input("endpoint.hardware", "Its hardware", "text", hint="As you state it, such as 2 A100."),
        Input("endpoint.key", "Key", "secret", hint=key),
    ]


def present() -> list[Input]:
    return [
        Input("present.metric", "What was measured", "select", choices=METRICS),
        Input("present.n", "N, for TTF-N"),
        Input("present.latency_ms", "Latency, ms"),
        Input("present.gpu", "GPU", "text", hint="Such as B200."),
        Input("present.usd_per_hour", "USD per GPU-hour"),
        Input("present.tokens_per_second", "Tokens or images per second", hint="If known."),
    ]


def model(groups: Sequence[tuple[str, Choices]]) -> Input:
    """The choice of a model; `groups` are headed lists."""
    return Input("model", "Model", "groups", required=True, choices=list(groups))  # type: ignore[arg-type]


SECTIONS = {
    make.__name__: make for make in (traffic, recording, behaviour, general, constraints, quality, endpoint, present)
}
"""The sections of the page in their order."""
FIXED = [form_input for make in SECTIONS.values() for form_input in make()]
LISTS = {form_input.name for form_input in FIXED if form_input.kind == "checks"}
FLAGS = {form_input.name for form_input in FIXED if form_input.kind == "check"}
NUMBERS = {form_input.name for form_input in FIXED if form_input.kind == "number"}
TEXTS = {form_input.name for form_input in FIXED} - LISTS - FLAGS | {"model"}
FACTS = {
    "present.": {form_input.name for form_input in present() if form_input.kind != "select"},
    "endpoint.": {form_input.name for form_input in endpoint() if form_input.kind != "select"},
    **{
        part: {form_input.name for form_input in (*traffic(), *behaviour()) if form_input.name.startswith(part)}
        for part in OF_KINDS
    },
}
"""These parts count as stated as soon as one of their inputs is filled in."""
