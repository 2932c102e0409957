"""The customer's endpoint beside the worker's own figures: every objective at the endpoint, before and after."""

from dataclasses import dataclass

from workers.charts.base import AFTER, BEFORE, PALETTE, Cell, Chart, Figure, Table, interval_bars, layout
from workers.documents.endpoint_result import EndpointRatio, EndpointResult
from workers.documents.load import LoadResult
from workers.documents.measurement import Interval, MetricKey, find_metric, metric_key
from workers.documents.stages import ObjectiveOutcome, Results, Verdict
from workers.documents.workload import Objective, metric_title
from workers.wording.text import moment, objective_limit, quantity

THERE = PALETTE[1]


@dataclass(frozen=True)
class EndpointObjective:
    """One objective at the endpoint (`there`), whose is the `verdict`, of the baseline runner and of the plan."""

    label: str
    there: float | None
    before: float | None
    after: float | None
    objective_limit: str
    unit: str
    verdict: Verdict | None


def endpoint_result(results: Results) -> EndpointResult | None:
    """What verify's result says of the endpoint; None where the workload names none."""
    return results.verify.endpoint if results.verify else None


def endpoint_objectives(results: Results) -> list[EndpointObjective]:
    """Every promise at the endpoint beside before and after; empty where it was not measured."""
    result = endpoint_result(results)
    if results.verify is None or result is None or result.load is None:
        return []
    return [_endpoint_objective(outcome, result.load) for outcome in results.verify.outcomes]


def _endpoint_objective(outcome: ObjectiveOutcome, load: LoadResult) -> EndpointObjective:
    objective = outcome.objective
    key = (metric_key(objective), objective.percentile)
    judged = next(
        (known for known in load.outcomes if (metric_key(known.objective), known.objective.percentile) == key), None
    )
    spread = _percentile(load, objective)
    value = judged.value if judged else spread.value if spread else None
    verdict = None if judged is None or load.lag.void else judged.verdict
    sides = (outcome.before, outcome.after)
    return EndpointObjective(objective.label, value, *sides, objective_limit(objective), objective.unit, verdict)


def _percentile(load: LoadResult, objective: Objective) -> Interval | None:
    metric = find_metric(load.metrics, metric_key(objective))
    return metric.percentiles.get(f"p{objective.percentile:g}") if metric else None


def where(results: Results) -> str:
    """One line with the endpoint's address and model, and the host and time of the measurement; "" without one."""
    result = endpoint_result(results)
    load = result.load if result else None
    return f"{load.url}, model {load.model}; asked from {load.host}, {moment(load.at)}" if load else ""


def ratio(results: Results) -> EndpointRatio | None:
    """The ratio of the endpoint's median to the plan's: of the first objective's metric, or else the first ratio."""
    result = endpoint_result(results)
    if results.verify is None or result is None or not result.ratios:
        return None
    return find_metric(result.ratios, metric_key(results.verify.outcomes[0].objective)) or result.ratios[0]


def words(results: Results) -> str:
    """A sentence with that ratio, its interval and both medians; "" if nothing can be compared."""
    compared = ratio(results)
    if compared is None:
        return ""
    title, own = metric_title(compared.metric, compared.n), compared.ratio
    there, here = (quantity(side.value, compared.unit) for side in (compared.endpoint, compared.after))
    whose = "the plan's" if results.verify and results.verify.recommended else "the baseline runner's"
    return (
        f"The median {title} there is {there}, {own.value:.2f}x {whose} {here} here ({own.low:.2f} to "
        f"{own.high:.2f} by the ends of both 95 % intervals); other hardware and the network are part of that ratio."
    )


def figure(results: Results) -> Figure | None:
    """A bar chart of the medians behind that ratio, with intervals: before, the endpoint, after."""
    compared = ratio(results)
    if compared is None or results.verify is None:
        return None
    bars: list[tuple[str, str, Interval]] = [
        ("After, here", AFTER, compared.after),
        ("Your endpoint", THERE, compared.endpoint),
    ]
    before = find_metric(results.verify.before, metric_key(compared))
    if before is not None and "p50" in before.percentiles:
        middle = before.percentiles["p50"]
        name = f"{results.verify.compared_with.capitalize()}, here"
        bars.insert(1, (name, BEFORE, Interval(value=middle, low=middle, high=middle)))
    title = f"median {metric_title(compared.metric, compared.n)}, {compared.unit}"
    form = layout(title, "", height=240, xaxis={"rangemode": "tozero"})
    return {"data": [interval_bars("median", compared.unit, bars)], "layout": form}


def table(results: Results) -> Table:
    """Percentiles of every metric at the endpoint with 95 % intervals, before and after beside them."""
    result = endpoint_result(results)
    if results.verify is None or result is None or result.load is None:
        return [], []
    rows: list[list[Cell]] = []
    for metric in result.load.metrics:
        sides = [_side(results, name, metric_key(metric)) for name in ("before", "after")]
        for name, spread in metric.percentiles.items():
            here = [side.get(name) for side in sides]
            title = f"{metric_title(metric.metric, metric.n)} {name}"
            rows.append([title, spread.value, spread.low, spread.high, *here, metric.unit])
    rows.append(["requests", result.load.requests, None, None, None, None, ""])
    return ["metric", "your endpoint", "low", "high", results.verify.compared_with, "after", "unit"], rows


def _side(results: Results, name: str, key: MetricKey) -> dict[str, float]:
    distribution = find_metric(getattr(results.verify, name), key)
    return distribution.percentiles if distribution else {}


CHART = Chart(
    "endpoint",
    "Your endpoint beside the worker",
    "Medians, with 95 % intervals of the endpoint and after. Other hardware, and a network between: no part of verdict "
    "or speedup.",
    "verify",
    "measured",
    figure,
    table,
)
