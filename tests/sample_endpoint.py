"""A made-up result at a customer's endpoint, beside the sample results: no measurement."""

from tests.sample_loads import load
from workers.documents.endpoint import Endpoint
from workers.documents.endpoint_result import EndpointRatio, EndpointResult, EndpointRound
from workers.documents.load import (
    LoadFailure,
    LoadMetric,
    LoadOutcome,
)
from workers.documents.measurement import Interval
from workers.documents.stages import Results
from workers.documents.traffic import Traffic
from workers.loadtest.endpoint.comparing import server_of
from workers.wording.load_search import curve_of

SERVER = server_of(
    Endpoint(url="https://models.example.com/v1", model="their-model", hardware="2 A100 of the test"), Traffic()
)
REFUSED = EndpointResult(
    server=SERVER,
    sentence="The endpoint was not measured. The server answered 401 (Unauthorized): Incorrect API key: …",
)


def _spread(value: float) -> Interval:
    return Interval(value=value, low=0.95 * value, high=1.07 * value)


def _metric(metric: str, value: float, n: int | None = None) -> LoadMetric:
    result = {f"p{p}": _spread(value * more) for p, more in ((50, 1.0), (90, 1.1), (95, 1.2), (99, 1.4))}
    return LoadMetric(metric=metric, n=n, unit="ms", samples=42, percentiles=result)


def measured(results: Results) -> EndpointResult:
    """An endpoint of 190 ms in the median, and one request in 42 that failed."""
    objectives = [outcome.objective for outcome in results.verify.outcomes]
    where = {"url": "https://models.example.com:443/v1", "model": "their-model", "in_flight": 1, "telemetry": None}
    failed = LoadFailure(kind="HTTP 429", count=1, sentence="The server answered 429 (Too Many Requests).")
    counts = {"seconds": 18, "requests": 42, "completed": 41, "failures": [failed], "requests_per_second": 2.3}
    rates = {"tokens_per_second": 146, "goodput": 0.1}
    metrics = [_metric("ttf_n", 190, 64), _metric("tpot", 2.6), _metric("ttft", 24), _metric("e2e", 190)]
    outcomes = [
        LoadOutcome(objective=each, value=value, verdict="missed", requests=42, over=40, needed=8)
        for each, value in zip(objectives, (190, 3.12), strict=True)
    ]
    result = where | counts | rates | {"metrics": metrics, "outcomes": outcomes}
    measured_load = load(1, 24, 2.6, "missed").model_copy(update=result)
    rounds = [
        EndpointRound(when=when, at=measured_load.at, seconds=9, requests=21, failed=failed, median=_spread(median))
        for when, failed, median in (("before verify", 0, 188), ("after verify", 1, 192))
    ]
    there, after = _spread(190), Interval(value=81, low=80.5, high=81.6)
    ratio = Interval(value=there.value / 81, low=there.low / 81.6, high=there.high / 80.5)
    return EndpointResult(
        server=SERVER,
        sentence="Of 42 requests in 2 rounds, 1 failed. The first: The server answered 429 (Too Many Requests).",
        load=measured_load,
        rounds=rounds,
        ratios=[EndpointRatio(metric="ttf_n", n=64, unit="ms", endpoint=there, after=after, ratio=ratio)],
    )


def under_load(results: Results) -> Results:
    """The results with a curve of the endpoint. It has three loads, and misses the first promise at each."""
    loads = [load(users, 20.0 + users, 2.6 + users / 10, "missed") for users in (1, 2, 4)]
    curve = curve_of(SERVER, results.load.before.limit.model_copy(update={"loads": loads}))
    return results.model_copy(update={"load": results.load.model_copy(update={"endpoint": curve})})


def with_endpoint(results: Results, found: EndpointResult | None = None) -> Results:
    """The results with one at an endpoint."""
    verify = results.verify.model_copy(update={"endpoint": found or measured(results)})
    return results.model_copy(update={"verify": verify})
