"""Draws the figures of this package as SVG, so that a report opens from a disk, without scripts, and prints.

It knows what the charts use: bars (stacked, grouped, with a base), lines and markers, linear, logarithmic and
category axes, line shapes and annotations. Text takes the page's colour (`currentColor`).
"""

import math
from dataclasses import dataclass, field
from html import escape
from typing import Any

from workers.charts.base import Figure

WIDTH = 860
CHARACTER = 7.0
"""Width of one character of the labels in pixels, roughly."""
DASHES = {"dash": "6 4", "dashdot": "6 3 2 3", "dot": "2 4", "solid": ""}


@dataclass
class Axis:
    """One axis: turns a value into a pixel between `start` and `end`. `marks` are the ticks of a logarithmic one."""

    kind: str
    low: float
    high: float
    categories: list[str] = field(default_factory=list)
    marks: list[float] = field(default_factory=list)
    start: float = 0
    end: float = 1

    def at(self, value: Any) -> float:
        if self.kind == "category":
            position = self.categories.index(str(value)) + 0.5
        else:
            position = math.log10(max(float(value), 1e-300)) if self.kind == "log" else float(value)
        return self.start + (position - self.low) / (self.high - self.low) * (self.end - self.start)

    @property
    def band(self) -> float:
        """Pixels between two categories."""
        return abs(self.end - self.start) / max(1, len(self.categories))

    def ticks(self) -> list[tuple[float, str]]:
        """(pixel, label) of each tick."""
        if self.kind == "category":
            return [(self.at(name), name) for name in self.categories]
        if self.kind == "log":
            inside = [mark for mark in self.marks if self.low - 1e-9 <= math.log10(mark) <= self.high + 1e-9]
            return [(self.at(value), f"{value:,.10g}") for value in inside]
        step = nice_step((self.high - self.low) / 6)
        first = math.ceil(self.low / step - 1e-9)
        count = int((self.high - self.low) / step + 1e-9)
        values = [(first + index) * step for index in range(count + 1) if (first + index) * step <= self.high * 1.0001]
        return [(self.at(value), f"{value:,.10g}" if abs(value) > 1e-12 else "0") for value in values]


def nice_step(rough: float) -> float:
    """The next of 1, 2, 5 times a power of ten at or above `rough`."""
    power = 10 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)


def _values(trace: Figure, axis: str) -> list[Any]:
    values = [value for value in trace.get(axis, []) if value is not None]
    if trace["type"] == "bar" and axis == "x" and "base" in trace:
        return values + [base + length for base, length in zip(trace["base"], trace["x"], strict=True)]
    if axis == "x" and "error_x" in trace:
        return values + [value + more for value, more in zip(values, trace["error_x"]["array"], strict=True)]
    return values


def _stacked(traces: list[Figure]) -> list[float]:
    total: dict[str, float] = {}
    for trace in traces:
        if trace["type"] == "bar":
            for name, value in zip(trace["y"], trace["x"], strict=True):
                total[str(name)] = total.get(str(name), 0) + (value or 0)
    return list(total.values())


def _axis(figure: Figure, name: str) -> Axis:
    form = figure["layout"][f"{name}axis"]
    values = [value for trace in figure["data"] for value in _values(trace, name)]
    if form.get("type") == "category" or any(isinstance(value, str) for value in values):
        categories = form.get("categoryarray") or list(dict.fromkeys(str(value) for value in values))
        return Axis("category", 0, len(categories), categories)
    if name == "x" and figure["layout"].get("barmode") == "stack":
        values = [value for trace in figure["data"] if trace["type"] != "bar" for value in trace["x"]]
        values += _stacked(figure["data"])
    values += [shape[f"{name}0"] for shape in figure["layout"].get("shapes", []) if shape.get(f"{name}ref") == name]
    if form.get("type") == "log":
        logs = [math.log10(value) for value in values if value > 0]
        return Axis("log", min(logs) - 0.08, max(logs) + 0.08, marks=form["tickvals"])
    low, high = form.get("range") or (min(values), max(values))
    bars = any(trace["type"] == "bar" for trace in figure["data"])
    if "range" not in form:
        low = min(0.0, low) if "rangemode" in form or bars else low
        pad = 0.04 * ((high - low) or abs(high) or 1.0)
        low, high = (low if low == 0 else low - pad), high + pad
    return Axis("linear", low, high)


def _text(x: float, y: float, words: str, anchor: str = "middle", **kwargs: Any) -> str:
    attributes = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in kwargs.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{attributes}>{escape(words)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1, dash: str = "") -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"'
        f"{dashed}/>"
    )


def _fitting(label: str, width: float) -> str:
    """The label, its end cut off where it is wider."""
    most = int(width / CHARACTER)
    return label if len(label) <= most else f"{label[: most - 1]}…"


def _grid(x: Axis, y: Axis, form: Figure) -> list[str]:
    parts = []
    for pixel, label in x.ticks():
        parts += [_line(pixel, y.start, pixel, y.end, "var(--grid, #dde2e8)"), _text(pixel, y.start + 17, label)]
    for pixel, label in y.ticks():
        if y.kind != "category":
            parts.append(_line(x.start, pixel, x.end, pixel, "var(--grid, #dde2e8)"))
        parts.append(_text(x.start - 8, pixel + 4, _fitting(label, x.start - 16), "end"))
    parts.append(_text((x.start + x.end) / 2, y.start + 38, form["xaxis"]["title"]["text"], opacity=0.75))
    title = form["yaxis"]["title"]["text"]
    if title:
        middle = (y.start + y.end) / 2
        parts.append(_text(13, middle, title, transform=f"rotate(-90 13 {middle:.1f})", opacity=0.75))
    return parts


def _bars(figure: Figure, x: Axis, y: Axis) -> list[str]:
    bars = [trace for trace in figure["data"] if trace["type"] == "bar"]
    grouped = figure["layout"].get("barmode") == "group"
    thickness = y.band * 0.72 / (len(bars) if grouped else 1)
    reached: dict[str, float] = {}
    parts = []
    for order, trace in enumerate(bars):
        colours = trace["marker"]["color"]
        for index, (name, value) in enumerate(zip(trace["y"], trace["x"], strict=True)):
            if value is None:
                continue
            base = trace["base"][index] if "base" in trace else (0.0 if grouped else reached.get(str(name), 0.0))
            reached[str(name)] = base + value
            shift = (len(bars) / 2 - 0.5 - order) * thickness if grouped else 0
            top = y.at(name) + shift - thickness / 2
            left, right = x.at(base), x.at(base + value)
            colour = colours[index] if isinstance(colours, list) else colours
            parts.append(
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{max(0.5, right - left):.1f}" height="{thickness:.1f}" '
                f'fill="{colour}"/>'
            )
            if "error_x" in trace:
                error, middle = trace["error_x"], top + thickness / 2
                low, high = x.at(value - error["arrayminus"][index]), x.at(value + error["array"][index])
                parts.append(_line(low, middle, high, middle, "currentColor", 1.3))
            if "text" in trace:
                parts.append(_bar_label(trace["text"][index], left, right, top + thickness / 2 + 4, x.end))
    return parts


def _bar_label(words: str, left: float, right: float, baseline: float, edge: float) -> str:
    width = CHARACTER * len(words) + 12
    if right + width <= edge:
        return _text(right + 6, baseline, words, "start")
    if right - left >= width:
        return _text(right - 6, baseline, words, "end", fill="#fff")
    return _text(left - 6, baseline, words, "end")


def _marker(symbol: str, x: float, y: float, size: float, colour: str) -> str:
    half = size / 2
    if symbol == "line-ns-open":
        return _line(x, y - half, x, y + half, colour, 2.5)
    if symbol == "x":
        cross = _line(x - half, y - half, x + half, y + half, colour, 2.5)
        return cross + _line(x - half, y + half, x + half, y - half, colour, 2.5)
    if symbol == "diamond":
        return f'<path d="M{x:.1f} {y - half:.1f}l{half} {half}l-{half} {half}l-{half} -{half}z" fill="{colour}"/>'
    if symbol == "circle-open":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{half:.1f}" fill="none" stroke="{colour}" stroke-width="2"/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{half:.1f}" fill="{colour}" fill-opacity="0.85"/>'


def _scatter(trace: Figure, x: Axis, y: Axis) -> list[str]:
    points = [
        (x.at(a), y.at(b))
        for a, b in zip(trace["x"], trace["y"], strict=True)
        if a is not None and b is not None and (y.kind != "category" or str(b) in y.categories)
    ]
    parts = []
    if "lines" in trace["mode"] and points:
        style = trace["line"]
        path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
        for px, py in points[1:]:
            path += f"H{px:.1f}V{py:.1f}" if style.get("shape") == "hv" else f"L{px:.1f} {py:.1f}"
        dash = DASHES[style.get("dash", "solid")]
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        parts.append(
            f'<path d="{path}" fill="none" stroke="{style["color"]}" stroke-width="{style["width"]}"{dashed}/>'
        )
    if "markers" in trace["mode"]:
        marker = trace["marker"]
        sizes = marker["size"] if isinstance(marker["size"], list) else [marker["size"]] * len(points)
        symbol = marker.get("symbol", "circle")
        parts += [_marker(symbol, px, py, size, marker["color"]) for (px, py), size in zip(points, sizes, strict=True)]
    return parts


def _legend(figure: Figure, left: float) -> list[str]:
    wanted = figure["layout"].get("showlegend", True)
    shown = [trace for trace in figure["data"] if wanted and trace.get("showlegend", True)]
    if figure["layout"]["legend"].get("traceorder") == "reversed":
        shown.reverse()
    words = sum(18 + CHARACTER * len(trace["name"]) for trace in shown)
    gap = max(6.0, min(22.0, (WIDTH - words) / max(1, len(shown))))
    parts, x = [], max(0.0, min(left, WIDTH - words - gap * len(shown)))
    for trace in shown:
        marker = trace.get("marker", {})
        colour = trace["line"]["color"] if "lines" in trace.get("mode", "") else marker.get("color")
        parts.append(f'<rect x="{x:.1f}" y="8" width="12" height="12" rx="3" fill="{colour}"/>')
        parts.append(_text(x + 18, 18, trace["name"], "start"))
        x += 18 + CHARACTER * len(trace["name"]) + gap
    return parts


def _limits(figure: Figure, x: Axis, y: Axis) -> list[str]:
    parts = []
    for shape in figure["layout"].get("shapes", []):
        dash, colour = DASHES[shape["line"]["dash"]], shape["line"]["color"]
        if shape["xref"] == "x":
            parts.append(_line(x.at(shape["x0"]), y.start, x.at(shape["x0"]), y.end, colour, 1.5, dash))
        else:
            parts.append(_line(x.start, y.at(shape["y0"]), x.end, y.at(shape["y0"]), colour, 1.5, dash))
    for note in figure["layout"].get("annotations", []):
        px = x.at(note["x"]) + 5 if note["xref"] == "x" else x.end
        py = y.start - 6 if note["xref"] == "x" else y.at(note["y"]) - 5
        room = px + CHARACTER * len(note["text"]) <= x.end
        anchor = "start" if note["xref"] == "x" and room else "end"
        parts.append(_text(px if room else px - 10, py, note["text"], anchor, fill=note["font"]["color"]))
    return parts


def draw(figure: Figure, title: str) -> str:
    """The figure as one `<svg>` element, `title` as its accessible name. It scales with the width of its parent."""
    height = figure["layout"]["height"]
    x, y = _axis(figure, "x"), _axis(figure, "y")
    longest = max((len(label) for _, label in y.ticks()), default=0)
    y_title = bool(figure["layout"]["yaxis"]["title"]["text"])
    x.start, x.end = min(0.44 * WIDTH, 16 + CHARACTER * longest + 20 * y_title), WIDTH - 14
    y.start, y.end = height - 48, 32
    body = [*_grid(x, y, figure["layout"]), *_bars(figure, x, y)]
    for trace in figure["data"]:
        if trace["type"] == "scatter":
            body += _scatter(trace, x, y)
    body += [*_limits(figure, x, y), *_legend(figure, x.start)]
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}" fill="currentColor" '
        f'font-size="12" font-family="inherit" xmlns="http://www.w3.org/2000/svg">{"".join(body)}</svg>'
    )
