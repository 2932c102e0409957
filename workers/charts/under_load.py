"""Before, after and the endpoint over the load: tokens per second, and the first promise with its limit."""

import re
from collections.abc import Sequence
from typing import Any

from workers.charts.base import (
    AFTER,
    BAD,
    BEFORE,
    PALETTE,
    Cell,
    Chart,
    Figure,
    Table,
    doubling_axis,
    layout,
    limit_line,
    log_axis,
)
from workers.documents.base import Basis
from workers.documents.load import LoadCurve, LoadOutcome, LoadResult, UnderLoadResult
from workers.documents.measurement import Interval
from workers.documents.stages import Results
from workers.documents.traffic import Traffic
from workers.documents.workload import Objective, metric_title
from workers.wording.serving import megakernel_sentence
from workers.wording.text import number, objective_limit, quantity, traffic_words

WORDS = {"met": "holds", "missed": "missed", "too_close": "too close to call", "not_enough_samples": "too few requests"}
THERE = PALETTE[1]
UNDECIDED = PALETTE[2]
CROSSED, OPEN = "missed", "not shown to hold"
MARK_OF = {"met": "", "missed": CROSSED}
MARKERS = {
    CROSSED: {"size": 10, "color": BAD, "symbol": "x"},
    OPEN: {"size": 12, "color": UNDECIDED, "symbol": "circle-open"},
}
SHOWN = ("ttft", "tpot", "itl", "batch_latency")
"""The metrics of the table beside the promises."""
FIGURES = re.compile(r"\d[\d,.]*")


def sides(results: Results) -> list[tuple[str, str, LoadCurve]]:
    if results.load is None:
        return []
    load = results.load
    label_before = "Today" if results.verify is not None and not results.verify.recommended else "Before"
    curves = ((label_before, BEFORE, load.before), ("After", AFTER, load.after), ("Endpoint", THERE, load.endpoint))
    return [(name, colour, curve) for name, colour, curve in curves if curve is not None and curve.limit.loads]


def kept_loads(load: UnderLoadResult) -> str:
    """The highest load of each side at which every promise is kept: `20 users after, none before`, `none today`."""
    sides = [("after", load.after), ("before" if load.after else "today", load.before)]
    highest = [(name, curve.limit.held) for name, curve in sides if curve is not None]
    return ", ".join(f"{traffic_words(most.traffic) if most else 'none'} {name}" for name, most in highest)


def verdict_words(load: LoadResult) -> str:
    """Whether every objective holds at this load."""
    return WORDS[load.verdict] if load.verdict else "void"


def _first(results: Results) -> Objective | None:
    return results.load.objectives[0] if results.load and results.load.objectives else None


def _outcome(load: LoadResult, objective: Objective) -> LoadOutcome | None:
    return next((outcome for outcome in load.outcomes if outcome.objective == objective), None)


def _traffic(results: Results) -> Traffic | None:
    return results.load.traffic if results.load else None


def objective_words(results: Results, objectives: Sequence[Objective]) -> list[tuple[str, str, Basis]]:
    """The promises that loads are judged by: label, words, and whether a limit was stated or follows from today's."""
    return [
        (objective.label, objective_limit(objective), "stated")
        if objective in objectives
        else (objective.label, f"{objective_limit(objective)}, from the median that verify measured before", "measured")
        for objective in (results.load.objectives if results.load else [])
    ]


def load_notes(results: Results) -> list[str]:
    """What is to be known of single loads. Notes that differ in figures alone are one, with those of the last load."""
    levels_of: dict[tuple[str, str], list[tuple[float, str]]] = {}
    for name, _, curve in sides(results):
        for load in curve.limit.loads:
            for note in load.notes:
                levels_of.setdefault((name, FIGURES.sub("", note)), []).append((load.level, note))
    return [
        f"{name} at {_levels(results, [level for level, _ in notes])}: {notes[-1][1]}"
        for (name, _), notes in levels_of.items()
    ]


def _levels(results: Results, levels: Sequence[float]) -> str:
    """Loads in words, such as `4 and 8 users at once, with figures of 8`."""
    *others, last = (f"{level:,g}" for level in levels)
    words = f"{', '.join(others)} and {last}" if others else last
    return f"{words} {_axis(_traffic(results))}{f', with figures of {last}' if others else ''}"


def kernels_by_load(result: UnderLoadResult | None) -> str:
    """Which kernels gave tokens after at how many requests at once; "" where this workbench's server did not say."""
    chosen = _chosen(result)
    if not chosen:
        return ""
    ops_words = megakernel_sentence(chosen)
    if not ops_words:
        return "The library's kernels give every token, with however many at once: no megakernel takes part."
    return f"{ops_words} More at once, and all prompts, go to the library's kernels."


def _chosen(result: UnderLoadResult | None) -> dict[str, Any]:
    """What this workbench's server chose for the plan when it started; {} where it is not after, or did not say."""
    after = result.after if result else None
    return after.server.settings if after and after.server.kind == "server" else {}


def _axis(traffic: Traffic | None, users: str = "users at once") -> str:
    """What the load is counted in; `users` names it in a closed loop."""
    if traffic is None or not traffic.open_loop:
        return users
    return "requests per second" if traffic.speed is None else "times the recorded speed"


def _traces(name: str, colour: str, points: list[tuple[LoadResult, float]], unit: str) -> list[Figure]:
    """The line of one side, and crosses where not every objective is shown to hold."""
    axis = _axis(points[0][0].traffic if points else None, "at once")

    def trace(label: str, shown: list[tuple[LoadResult, float]], **kwargs: Any) -> Figure:
        return {
            "type": "scatter",
            "name": label,
            "x": [load.level for load, _ in shown],
            "y": [value for _, value in shown],
            "text": [verdict_words(load) for load, _ in shown],
            "hovertemplate": f"{name}, %{{x}} {axis}: %{{y:.4g}} {unit}, %{{text}}<extra></extra>",
        } | kwargs

    line = {"line": {"color": colour, "width": 2.5}, "marker": {"size": 7, "color": colour}}
    traces = [trace(name, points, mode="lines+markers", **line)]
    for label, marker in MARKERS.items():
        marked = [point for point in points if MARK_OF.get(point[0].verdict or "", OPEN) == label]
        if marked:
            traces.append(trace(label, marked, mode="markers", marker=marker))
    return traces


def _figure(traces: list[Figure], traffic: Traffic | None, title: str, **kwargs: Any) -> Figure:
    closed = traffic is None or not traffic.open_loop
    loads = [float(value) for trace in traces for value in trace["x"]]
    for label in MARKERS:
        for trace in [trace for trace in traces if trace["name"] == label][:-1]:
            trace["showlegend"] = False
    return {
        "data": traces,
        "layout": layout(_axis(traffic), title, xaxis=(doubling_axis if closed else log_axis)(loads), **kwargs),
    }


def figure(results: Results) -> Figure | None:
    traces = []
    for name, colour, curve in sides(results):
        traces += _traces(name, colour, [(load, load.tokens_per_second) for load in curve.limit.loads], "tokens/s")
    if not traces:
        return None
    drawn = _figure(traces, _traffic(results), "output tokens per second", yaxis={"rangemode": "tozero"})
    up_to = _chosen(results.load).get("megakernel_up_to") or 0
    loads = [level for trace in traces for level in trace["x"]]
    traffic = _traffic(results)
    if traffic and not traffic.open_loop and up_to in range(int(min(loads)), int(max(loads))):
        drawn["layout"] |= limit_line("x", up_to, f"megakernel up to {up_to}")
    return drawn


def objective_figure(results: Results) -> Figure | None:
    objective, traces = _first(results), []
    if objective is None or objective.limit is None:
        return None
    for name, colour, curve in sides(results):
        judged = [(load, _outcome(load, objective)) for load in curve.limit.loads]
        points = [(load, outcome.value) for load, outcome in judged if outcome and outcome.value is not None]
        traces += _traces(name, colour, points, objective.unit) if points else []
    if not traces:
        return None
    values = [value for trace in traces for value in trace["y"]]
    wide = max(values) > 20 * min(values) > 0
    form = {"yaxis": log_axis([*values, objective.limit]) if wide else {"rangemode": "tozero"}}
    drawn = _figure(traces, _traffic(results), f"{objective.label}, {objective.unit}", **form)
    drawn["layout"] |= limit_line("y", objective.limit, f"limit {number(objective.limit)} {objective.unit}")
    return drawn


def _interval(value: Interval | None, alone: float | None = None) -> str | float | None:
    if value is None:
        return alone
    return f"{number(value.value)} [{number(value.low)} to {number(value.high)}]"


def table(results: Results) -> Table:
    objectives = results.load.objectives if results.load else []
    measured = {
        metric.metric for _, _, curve in sides(results) for load in curve.limit.loads for metric in load.metrics
    }
    times = [metric for metric in SHOWN if metric in measured]
    heads = ["side", _axis(_traffic(results)), "tokens/s, 95 % interval", "requests/s", "goodput, requests/s"]
    heads += [f"{objective.label}, {objective.unit}" for objective in objectives]
    heads += [f"{metric_title(metric)} p50, ms" for metric in times] + ["requests", "failed", "objectives"]
    body: list[list[Cell]] = []
    for name, _, curve in sides(results):
        for load in curve.limit.loads:
            outcomes = [_outcome(load, objective) for objective in objectives]
            row: list[Cell] = [
                name.lower(),
                load.level,
                _interval(load.tokens_per_second_interval, load.tokens_per_second),
            ]
            row += [load.requests_per_second, load.goodput]
            row += [outcome.value if outcome else None for outcome in outcomes]
            row += [load.median(metric) for metric in times]
            body.append([*row, load.requests, load.failed, verdict_words(load)])
    return heads, body


def objective_table(results: Results) -> Table:
    body: list[list[Cell]] = []
    for name, _, curve in sides(results):
        limit, highest = curve.limit, curve.limit.held
        rate = quantity(highest.tokens_per_second, "tokens/s") if highest else None
        flat = limit.saturation.users if limit.saturation else None
        flat = round(flat) if flat is not None and limit.rate is None and limit.speed is None else flat
        confidence = f"{100 * limit.confidence:g} %"
        body.append([name.lower(), curve.server.label, limit.level or "none", rate, flat, len(limit.loads), confidence])
    heads = ["side", "what served", f"{_axis(_traffic(results))} that hold", "throughput there", "saturated from"]
    return [*heads, "loads", "confidence"], body


CHART = Chart(
    "load",
    "Throughput under load",
    "Tokens per second over users of a closed loop, requests per second of an open one, or the speed at which a "
    "recording is replayed. Cross: an objective is missed. Ring: too few requests, too close to call, or void. "
    "Dashed line: up to so many users the server gives tokens by the megakernel.",
    "load",
    "measured",
    figure,
    table,
)
PROMISE = Chart(
    "load_promise",
    "The first promise under load",
    "The highest load that holds is found by a search that is judged at 99 % confidence as a whole; slow periods "
    "that come fewer than eight times in a load may escape it.",
    "load",
    "measured",
    objective_figure,
    objective_table,
)
