"""Latency before and after as cumulative distributions; percentiles and tails come from every sample."""

from workers.charts.base import AFTER, BEFORE, Chart, Figure, Table, beyond, layout, limit_line
from workers.documents.measurement import Distribution, MetricKey, find_metric, metric_key
from workers.documents.stages import Results
from workers.documents.workload import Objective, metric_title
from workers.wording.text import before_label, number

DRAWN_POINTS = 2000
FAR = 4
"""A limit beyond this many times the slowest sample is named, not drawn: the line would squeeze the samples."""


def metrics(results: Results) -> list[MetricKey]:
    """The metrics measured before and after, the first objective's first."""
    if results.verify is None:
        return []
    first = [metric_key(outcome.objective) for outcome in results.verify.outcomes]
    after = [metric_key(distribution) for distribution in results.verify.after if distribution.samples]
    return [metric for metric in dict.fromkeys(first) if metric in after] + [
        metric for metric in after if metric not in first
    ]


def _pair(results: Results, metric: MetricKey) -> list[tuple[str, str, Distribution]]:
    if results.verify is None:
        return []
    verify = results.verify
    sides = [(verify.compared_with.capitalize(), BEFORE, verify.before), ("After", AFTER, verify.after)]
    if not verify.recommended:
        sides = [(before_label(verify.compared_with).capitalize(), BEFORE, verify.before)]
    return [
        (name, colour, distribution)
        for name, colour, side in sides
        if (distribution := find_metric(side, metric)) and distribution.samples
    ]


def _objectives(results: Results, metric: MetricKey) -> list[Objective]:
    outcomes = results.verify.outcomes if results.verify else []
    objectives = [outcome.objective for outcome in outcomes if metric_key(outcome.objective) == metric]
    return [objective for objective in objectives if objective.limit is not None]


def steps(samples: list[float]) -> tuple[list[float], list[float]]:
    """Sorted samples and the percentage at or below each. Many samples are thinned evenly; the largest always stays."""
    ordered = sorted(samples)
    stride = -(-len(ordered) // DRAWN_POINTS)
    kept = [*range(0, len(ordered) - 1, stride), len(ordered) - 1]
    return [ordered[index] for index in kept], [100 * (index + 1) / len(ordered) for index in kept]


def figure_of(results: Results, metric: MetricKey) -> Figure | None:
    """The dist of one metric before and after, with the limit of its objective."""
    pair = _pair(results, metric)
    if not pair:
        return None
    traces = []
    for name, colour, dist in pair:
        ordered, shares = steps(dist.samples)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if len(ordered) < 60 else "lines",
                "name": f"{name} ({len(dist.samples):,} samples)",
                "x": [ordered[0], *ordered],
                "y": [0.0, *shares],
                "line": {"color": colour, "width": 2.5, "shape": "hv"},
                "marker": {"size": 4, "color": colour},
                "hovertemplate": f"{name}: %{{y:.1f}} % within %{{x:.4g}} {dist.unit}<extra></extra>",
            }
        )
    form = layout(
        f"{metric_title(*metric)}, {pair[0][2].unit}",
        "requests within, %",
        xaxis={"rangemode": "tozero"},
        yaxis={"range": [0, 103]},
    )
    slowest = max(sample for _, _, dist in pair for sample in dist.samples)
    for objective in _objectives(results, metric)[:1]:
        limit = objective.limit or 0.0
        words = f"limit {number(limit)} {objective.unit}"
        far = limit > FAR * slowest
        form |= beyond(f"{words}, far to the right") if far else limit_line("x", limit, words)
    return {"data": traces, "layout": form}


def table_of(results: Results, metric: MetricKey) -> Table:
    pair = _pair(results, metric)
    names = sorted({name for _, _, dist in pair for name in dist.percentiles}, key=lambda name: float(name.strip("p")))
    rows: list[list[str | float | int | None]] = [
        [name if name.startswith("p") else f"p{name}", *(dist.percentiles.get(name) for _, _, dist in pair)]
        for name in names
    ]
    rows.append(["samples", *(len(dist.samples) for _, _, dist in pair)])
    return ["percentile", *(f"{name.lower()}, {dist.unit}" for name, _, dist in pair)], rows


def figure(results: Results) -> Figure | None:
    keys = metrics(results)
    return figure_of(results, keys[0]) if keys else None


def table(results: Results) -> Table:
    keys = metrics(results)
    return table_of(results, keys[0]) if keys else ([], [])


CHART = Chart(
    "latency",
    "Distribution of latency",
    "Share of requests answered within a time; the further left, the faster. No sample is dropped.",
    "verify",
    "measured",
    figure,
    table,
)
