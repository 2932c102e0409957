"""The whole-model plans that were tried, by the first objective's metric."""

from workers.charts.base import AFTER, BEFORE, Chart, Figure, Table, layout
from workers.charts.text import quantity
from workers.documents.stages import PlanTrial, Results


def _trials(results: Results) -> list[PlanTrial]:
    return results.compose.trials if results.compose else []


def figure(results: Results) -> Figure | None:
    timed = [(each, each.primary) for each in reversed(_trials(results)) if each.primary is not None]
    if not timed:
        return None
    trace = {
        "type": "bar",
        "orientation": "h",
        "name": "plan",
        "showlegend": False,
        "y": [each.label + (" (chosen)" if each.chosen else "") for each, _ in timed],
        "x": [primary.value for _, primary in timed],
        "customdata": [quantity(primary.value, each.unit) for each, primary in timed],
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [primary.high - primary.value for _, primary in timed],
            "arrayminus": [primary.value - primary.low for _, primary in timed],
            "thickness": 1.2,
            "width": 3,
        },
        "marker": {"color": [AFTER if each.chosen else BEFORE for each, _ in timed]},
        "hovertemplate": "%{y}: %{customdata}<extra></extra>",
    }
    form = layout(timed[0][0].unit, "", height=120 + 44 * len(timed), xaxis={"rangemode": "tozero"})
    return {"data": [trace], "layout": form}


def table(results: Results) -> Table:
    headers = ["plan", "median", "low", "high", "unit", "gate", "chosen", "reason"]
    rows: list[list[str | float | int | None]] = []
    for each in _trials(results):
        spread = (each.primary.value, each.primary.low, each.primary.high) if each.primary else (None, None, None)
        rows.append([each.label, *spread, each.unit, each.gate, "yes" if each.chosen else "no", each.reason])
    return headers, rows


CHART = Chart(
    "plans",
    "Whole-model plans that were tried",
    "A quick measurement of the first objective's metric for each plan, with its 95 % interval.",
    "compose",
    "measured",
    figure,
    table,
)
