"""The form, the colours and the layout of every chart. Pages and report add their theme."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from workers.documents.base import Basis
from workers.documents.measurement import Interval
from workers.documents.stages import Results, Stage
from workers.wording.text import quantity

Figure = dict[str, Any]
Cell = str | float | int | None
Table = tuple[list[str], list[list[Cell]]]

BEFORE = "#8290a3"
AFTER = "#12918f"
LIMIT = "#cf4a3a"
BAD = "#cf4a3a"
PALETTE = ("#12918f", "#5f82cc", "#c08a35", "#a267b5", "#6f9f3c", "#c4637a", "#8290a3")
"""Mid tones that stay legible on white and on dark grey."""


@dataclass(frozen=True)
class Chart:
    """One chart of what `stage` found.

    `figure` gives None when the results do not hold what it draws; `table` holds the same numbers.
    """

    key: str
    title: str
    note: str
    stage: Stage
    basis: Basis
    figure: Callable[[Results], Figure | None]
    table: Callable[[Results], Table]


def layout(x: str, y: str, **kwargs: Any) -> dict[str, Any]:
    """A plotly layout with axis titles; backgrounds are transparent and the page sets font and grid colours."""
    base: dict[str, Any] = {
        "xaxis": {"title": {"text": x, "standoff": 8}, "automargin": True, "zeroline": False},
        "yaxis": {"title": {"text": y, "standoff": 14}, "automargin": True, "zeroline": False},
        "margin": {"l": 10, "r": 16, "t": 34, "b": 10},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hovermode": "closest",
        "showlegend": True,
        "height": 340,
    }
    for key, value in kwargs.items():
        base[key] = {**base[key], **value} if isinstance(base.get(key), dict) else value
    return base


def interval_bars(name: str, unit: str, bars: Sequence[tuple[str, str, Interval]]) -> dict[str, Any]:
    """A trace of one horizontal bar for each (label, colour, interval in `unit`), the first one lowest."""
    labels, colours, intervals = zip(*bars, strict=True)
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "showlegend": False,
        "y": list(labels),
        "x": [interval.value for interval in intervals],
        "customdata": [quantity(interval.value, unit) for interval in intervals],
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [interval.high - interval.value for interval in intervals],
            "arrayminus": [interval.value - interval.low for interval in intervals],
            "thickness": 1.2,
            "width": 3,
        },
        "marker": {"color": list(colours)},
        "hovertemplate": "%{y}: %{customdata}<extra></extra>",
    }


def log_axis(values: list[float]) -> dict[str, Any]:
    """A logarithmic axis for `values`: ticks at the decades, over a short range between them as well."""
    low, high = math.log10(min(values)), math.log10(max(values))
    steps = (1,) if high - low > 2 else (1, 2, 5) if high - low > 1 else (1, 2, 3, 4, 5, 7)
    return _ticked(
        [step * 10.0**decade for decade in range(math.floor(low) - 1, math.ceil(high) + 1) for step in steps]
    )


def doubling_axis(values: list[float]) -> dict[str, Any]:
    """A logarithmic axis for numbers of users, which a search doubles: ticks at powers of two, eight at most."""
    first, last = math.floor(math.log2(min(values))), math.ceil(math.log2(max(values)))
    return _ticked([2.0**power for power in range(first, last + 1, 1 if last - first < 8 else 2)])


def _ticked(ticks: list[float]) -> dict[str, Any]:
    return {"type": "log", "tickmode": "array", "tickvals": ticks, "ticktext": [f"{tick:,.10g}" for tick in ticks]}


def limit_line(axis: str, value: float, text: str = "") -> dict[str, list[dict[str, Any]]]:
    """A dashed line across the plot at `value` of `axis` ("x" or "y"), with its label, if any."""
    other = "y" if axis == "x" else "x"
    shape = {
        "type": "line",
        f"{axis}0": value,
        f"{axis}1": value,
        f"{axis}ref": axis,
        f"{other}0": 0,
        f"{other}1": 1,
        f"{other}ref": "paper",
        "line": {"color": LIMIT, "width": 1.5, "dash": "dash"},
    }
    note = {
        axis: value,
        f"{axis}ref": axis,
        other: 0.02 if axis == "x" else 0.99,
        f"{other}ref": "paper",
        "text": text,
        "showarrow": False,
        "xanchor": "left" if axis == "x" else "right",
        "yanchor": "bottom",
        "xshift": 4 if axis == "x" else 0,
        "font": {"color": LIMIT, "size": 12},
    }
    return {"shapes": [shape], "annotations": [note] if text else []}


def beyond(text: str = "") -> dict[str, list[dict[str, Any]]]:
    """A note at the right edge about a limit that lies outside the plot."""
    note = {
        "x": 1,
        "xref": "paper",
        "y": 0,
        "yref": "y",
        "text": text,
        "showarrow": False,
        "xanchor": "right",
        "yanchor": "bottom",
        "font": {"color": LIMIT, "size": 12},
    }
    return {"annotations": [note]}
