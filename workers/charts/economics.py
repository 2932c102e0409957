"""The price of a million tokens (or images, …) before and after over the range of prices the GPU can be had for."""

from workers.charts.base import AFTER, BEFORE, Chart, Figure, Table, layout
from workers.documents.stages import Results


def figure(results: Results) -> Figure | None:
    if results.price is None or not results.price.sensitivity:
        return None
    points = sorted(results.price.sensitivity, key=lambda each: each.usd_per_hour)
    each_million = f"M {results.price.counted}"
    traces = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": name,
            "x": [each.usd_per_hour for each in points],
            "y": [getattr(each, key) for each in points],
            "line": {"color": colour, "width": 2.5},
            "marker": {"size": 6, "color": colour},
            "hovertemplate": f"{name}: $%{{y:.4g}} per {each_million} at $%{{x:.2f}} per GPU-hour<extra></extra>",
        }
        for name, colour, key in (("Before", BEFORE, "before"), ("After", AFTER, "after"))
        if any(getattr(each, key) is not None for each in points)
    ]
    if not traces:
        return None
    form = layout("USD per GPU-hour", f"USD per {each_million}", yaxis={"rangemode": "tozero"}, height=320)
    return {"data": traces, "layout": form}


def table(results: Results) -> Table:
    points = results.price.sensitivity if results.price else []
    unit = f"USD per M {results.price.counted}" if results.price else ""
    return ["USD per GPU-hour", f"before, {unit}", f"after, {unit}"], [
        [each.usd_per_hour, each.before, each.after]
        for each in points
        if each.before is not None or each.after is not None
    ]


CHART = Chart(
    "economics",
    "Cost over the price of the GPU",
    "Public prices of one GPU spread about five-fold; read the line at the price you pay.",
    "price",
    "modelled",
    figure,
    table,
)
