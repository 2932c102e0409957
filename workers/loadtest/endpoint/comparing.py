"""Compares the customer's endpoint with the worker's own figures: the ratios, and what makes them incomparable."""

from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pydantic import TypeAdapter, ValidationError

from kernels.load.connection import Address
from kernels.measure.intervals import median_interval
from workers.documents.endpoint import Endpoint
from workers.documents.endpoint_result import EndpointRatio
from workers.documents.load import LoadedServer, LoadMetric, LoadResult
from workers.documents.measurement import Distribution, Interval, find_metric, metric_key
from workers.documents.traffic import Traffic
from workers.documents.workload import Objective
from workers.loadtest.prompts import PATHS

Read = TypeVar("Read")

NOT_COMPARABLE = (
    "The network between the worker and the endpoint is inside its times; of what ran on the worker none is.",
    "It may serve other people's requests at the same time, whose batches these requests then share.",
    "Whether it serves the same weights in the same precision is its owner's word; no quality was measured there.",
    "Prompts are words of the same length in tokens as the server counts them, not the same ids.",
)


def users(traffic: Traffic) -> int:
    """The clients of the closed loop. The endpoint has as many requests open at once as the baseline runner had."""
    return max(traffic.concurrency, traffic.batch)


def server_of(endpoint: Endpoint, traffic: Traffic, clients_wait: bool = True) -> LoadedServer:
    """What a result says of the endpoint: label, sentence and caveats. `clients_wait` says that the loop was closed."""
    caveats = list(NOT_COMPARABLE)
    if traffic.batch > 1:
        caveats.append(
            f"Here {traffic.batch} requests are served as one batch; there each client sends one request at a "
            "time, and the server forms its own batches."
        )
    waits, comes = "each client waits for its answer before its next request.", "requests come at their own times."
    when = waits if clients_wait else comes
    base = Address.parse(endpoint.url).base
    return LoadedServer(
        kind="endpoint",
        label=f"{endpoint.model} at {urlsplit(endpoint.url).hostname}",
        sentence=f"A server of the customer's, asked by {base}{PATHS[endpoint.api]} from the worker; {when}",
        hardware=endpoint.hardware,
        caveats=caveats,
    )


def judged_objectives(objectives: Sequence[Objective], endpoint: Endpoint, price: float | None) -> list[Objective]:
    """The objectives that the endpoint can be judged by: those with a limit, and with a price if they need one."""
    unjudged = {"cost_per_mtok"} if price is None else set()
    if endpoint.api == "embeddings":
        unjudged |= {"throughput", "cost_per_mtok"}
    return [objective for objective in objectives if objective.limit is not None and objective.metric not in unjudged]


def rounds_sentence(load: LoadResult, rounds: int) -> str:
    """A sentence about the rounds: their requests and clients, and the tokens served or the requests that failed."""
    clients = "one client" if load.users == 1 else f"{load.users:,} clients"
    counted = f"{load.requests:,} requests of {clients} in {rounds} {'round' if rounds == 1 else 'rounds'}"
    sent = f"{load.tokens.prompt_wanted:,} prompt and {load.tokens.output:,} output tokens"
    failed = f"Of {counted}, {load.failed:,} failed."
    sentence = failed if load.failed else f"The endpoint answered {counted}: {sent}."
    if load.failed:
        sentence += f" The first: {load.failures[0].sentence}"
    return sentence


def read(kind: type[list[Read]], written: Any) -> list[Read]:
    """The list that the stage's process wrote; [] if it is malformed, since the workbench then refuses the result."""
    try:
        return TypeAdapter(kind).validate_python(written)
    except ValidationError:
        return []


def ratios(metrics: Sequence[LoadMetric], after: Sequence[Distribution]) -> list[EndpointRatio]:
    """The ratio of the endpoint's median to the plan's, for every metric that both have."""
    plan = [distribution for distribution in after if distribution.samples and distribution.unit == "ms"]
    compared = []
    for metric in metrics:
        plan_side = find_metric(plan, metric_key(metric))
        if plan_side is None or metric.unit != "ms" or "p50" not in metric.percentiles:
            continue
        value, low, high = median_interval(plan_side.samples)
        there = metric.percentiles["p50"]
        if low <= 0:
            continue
        ratio = Interval(value=there.value / value, low=there.low / high, high=there.high / low)
        here = Interval(value=value, low=low, high=high)
        compared.append(
            EndpointRatio(metric=metric.metric, n=metric.n, unit=metric.unit, endpoint=there, after=here, ratio=ratio)
        )
    return compared
