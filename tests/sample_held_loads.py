"""Both sides under load, in round numbers that prices can be worked out of by hand: no measurement."""

import sample_loads

from workers.documents.load import (
    LimitResult,
    LoadCurve,
    LoadedServer,
    LoadMetric,
    LoadResult,
    UnderLoadResult,
)
from workers.documents.measurement import Environment, Interval, Telemetry
from workers.documents.traffic import Traffic

ENVIRONMENT = Environment(device="Test device", gpu_class="h200", versions={}, at="2026-01-01T00:00:00Z")


def loaded(users: int, rate: float, met: bool) -> LoadResult:
    """One load of 10 s in which prompts of 128 and answers of 64 tokens came at `rate` output tokens per second."""

    def metric(name: str, ms: float) -> LoadMetric:
        result = {"p50": Interval(value=ms, low=0.95 * ms, high=1.05 * ms)}
        return LoadMetric(metric=name, unit="ms", samples=100, percentiles=result)

    made = sample_loads.load(users, 20, 1, "met" if met else "missed")
    tokens = made.tokens.model_copy(update={"prompt": int(rate * 20), "output": int(rate * 10)})
    changes = {"traffic": Traffic(concurrency=users), "tokens": tokens, "outcomes": [], "goodput": None}
    changes |= {"seconds": 10, "requests": 100, "completed": 100, "requests_per_second": rate / 64}
    changes |= {"metrics": [metric("ttft", 20), metric("tpot", users * 0.5)], "tokens_per_second": rate}
    changes |= {"tokens_per_second_interval": Interval(value=rate, low=0.98 * rate, high=1.02 * rate)}
    return made.model_copy(update=changes | {"telemetry": Telemetry(power_w_mean=400, power_gap_s=0.1)})


def curve(label: str, rates: dict[int, float], users: int) -> LoadCurve:
    """A side whose highest load that holds is `users`; `rates` are output tokens per second by users."""
    server = LoadedServer(kind="server", label=label, sentence="", hardware="Test device", gpu_class="h200")
    loads = [loaded(each, rate, each <= users) for each, rate in rates.items()]
    limit = LimitResult(users=users, most=8, confidence=0.99, confidence_each=0.999, loads=loads)
    return LoadCurve(server=server, limit=limit, sentence="")


def under_load(before_users: int = 2) -> UnderLoadResult:
    """Before holds at `before_users`, after at 8: 400 and 4,000 tokens per second."""
    return UnderLoadResult(
        environment=ENVIRONMENT, traffic=Traffic(), objectives=[],
        before=curve("before", {1: 220.0, 2: 400.0, 8: 900.0}, before_users),
        after=curve("after", {1: 800.0, 2: 1500.0, 8: 4000.0}, 8), sentence="",
    )  # fmt: skip
