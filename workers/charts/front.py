"""What a million tokens cost against the promised latency: a point for each plan on each class of GPU."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

from workers.charts.base import AFTER, BEFORE, PALETTE, Figure, Table, layout, limit_line, log_axis
from workers.documents.base import Basis
from workers.documents.model import CountedUnit
from workers.documents.workload import Objective
from workers.wording.text import quantity

THERE = PALETTE[1]
OF_GPUS = (AFTER, *PALETTE[2:6])
OTHERS = (
    ("Baseline, measured", "today", BEFORE, "circle"),
    ("Your endpoint", "endpoint", THERE, "x"),
    ("Your deployment, as stated", "stated", THERE, "diamond"),
)
"""Name, group, colour and symbol of the points that are no plans."""


@dataclass(frozen=True)
class CostPoint:
    """A plan on GPUs: the median of the promised metric in ms, and USD a million, None where no price is known.

    `basis` is that of the latency and the rate; `keeps` says in words whether the promises are kept. `group` is what
    the point is drawn as: plan, today, endpoint or stated.
    """

    gpu: str
    plan: str
    ms: float
    usd: float | None
    basis: Basis
    keeps: str = ""
    group: str = "plan"
    on_front: bool = False


def with_front(points: Sequence[CostPoint]) -> list[CostPoint]:
    """The points by rising latency; on the front are the plans that no other measured one beats in both."""
    ordered = sorted(points, key=lambda point: (point.ms, point.usd or 0.0))
    least, front = float("inf"), []
    for point in ordered:
        counts = point.basis == "measured" and point.group in ("plan", "today") and point.usd is not None
        on_front = counts and (point.usd or 0.0) < least
        least = (point.usd or 0.0) if on_front else least
        front.append(replace(point, on_front=on_front))
    return front


def figure(points: Sequence[CostPoint], objective: Objective, counted: CountedUnit) -> Figure | None:
    """The points with a price, the front through the measured ones, the promise, and an endpoint without a price."""
    priced = [point for point in points if point.usd is not None]
    if not priced:
        return None
    groups = [*_plans(priced)]
    for name, kind, colour, symbol in OTHERS:
        groups.append((name, colour, symbol, [point for point in priced if point.group == kind]))
    front = [point for point in priced if point.on_front]
    line = {"color": AFTER, "width": 1.5, "dash": "dot"}
    traces = [_trace("Front", front, "lines", line=line)] if len(front) > 1 else []
    for name, colour, symbol, group in groups:
        if group:
            marker = {"color": colour, "size": 11, "symbol": symbol}
            traces.append(_trace(name, group, "markers", marker=marker))
    form = layout(
        f"median {objective.title}, ms",
        f"USD per M {counted}",
        height=400,
        xaxis={"rangemode": "tozero"},
        yaxis=log_axis([point.usd for point in priced if point.usd]),
    )
    return {"data": traces, "layout": form | _lines(points, objective)}


def _plans(points: Sequence[CostPoint]) -> Iterator[tuple[str, str, str, list[CostPoint]]]:
    """The name, colour, symbol and points of each GPU's plans, measured ones first. Labels at points would overlap."""
    plans = [point for point in points if point.group == "plan"]
    kinds = dict.fromkeys((plan.basis, plan.gpu) for plan in sorted(plans, key=lambda plan: plan.basis))
    for (basis, gpu), colour in zip(kinds, cycle(OF_GPUS), strict=False):
        symbol = "circle" if basis == "measured" else "diamond"
        yield f"{gpu}, {basis}", colour, symbol, [plan for plan in plans if (plan.basis, plan.gpu) == (basis, gpu)]


def _trace(name: str, points: Sequence[CostPoint], mode: str, **style: Any) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": mode,
        "name": name,
        "x": [point.ms for point in points],
        "y": [point.usd for point in points],
        "customdata": [f"{point.plan} on {point.gpu}" for point in points],
        "hovertemplate": "%{customdata}: %{x:.4g} ms, $%{y:.4g}<extra></extra>",
        **style,
    }


def _lines(points: Sequence[CostPoint], objective: Objective) -> dict[str, list[dict[str, Any]]]:
    """The promised limit, and the latency of an endpoint whose price nobody stated."""
    lines = [limit_line("x", objective.limit, f"promised, p{objective.percentile:g}")] if objective.limit else []
    for point in points:
        if point.group == "endpoint" and point.usd is None:
            reference = limit_line("x", point.ms, "your endpoint, no price stated")
            reference["shapes"][0]["line"]["color"] = reference["annotations"][0]["font"]["color"] = THERE
            reference["annotations"][0]["y"] = 0.09
            lines.append(reference)
    return {key: [entry for line in lines for entry in line[key]] for key in ("shapes", "annotations")}


def table(points: Sequence[CostPoint], objective: Objective, counted: CountedUnit) -> Table:
    """Every point, also those without a price."""
    headers = [
        "GPU",
        "plan",
        f"median {objective.title}",
        f"USD per M {counted}",
        "latency and rate",
        "promises",
        "front",
    ]
    return headers, [
        [
            point.gpu,
            point.plan,
            quantity(point.ms, "ms"),
            None if point.usd is None else quantity(point.usd, "USD"),
            point.basis,
            point.keeps or None,
            "yes" if point.on_front else "no",
        ]
        for point in points
    ]
