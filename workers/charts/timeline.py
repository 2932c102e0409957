"""How long each stage of a run took. Drawn from the run's own times, so it is not among the charts of results."""

from dataclasses import dataclass

from workers.charts.base import PALETTE, Figure, Table, layout


@dataclass(frozen=True)
class StageSpan:
    """One stage: seconds from the run's start, and how long it took."""

    stage: str
    start_s: float
    duration_s: float


def figure(spans: list[StageSpan]) -> Figure | None:
    """Horizontal bars from start to end, the first stage on top."""
    if not spans:
        return None
    shown = spans[::-1]
    trace = {
        "type": "bar",
        "orientation": "h",
        "showlegend": False,
        "name": "stage",
        "y": [span.stage for span in shown],
        "base": [span.start_s for span in shown],
        "x": [span.duration_s for span in shown],
        "text": [f"{span.duration_s:.1f} s" for span in shown],
        "textposition": "auto",
        "textangle": 0,
        "cliponaxis": False,
        "marker": {"color": PALETTE[0]},
        "hovertemplate": "%{y}: %{text}<extra></extra>",
    }
    more = {"height": 110 + 30 * len(spans), "margin": {"r": 48}}
    form = layout("seconds since the run started", "", xaxis={"rangemode": "tozero"}, **more)
    return {"data": [trace], "layout": form}


def table(spans: list[StageSpan]) -> Table:
    return ["stage", "start, s", "duration, s"], [[span.stage, span.start_s, span.duration_s] for span in spans]
