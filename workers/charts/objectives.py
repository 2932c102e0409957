"""Every objective before and after, as a share of its limit."""

from workers.charts.base import AFTER, BEFORE, Chart, Figure, Table, layout, limit_line
from workers.charts.text import quantity
from workers.documents.stages import ObjectiveOutcome, Results


def _outcomes(results: Results) -> list[ObjectiveOutcome]:
    return results.verify.outcomes if results.verify else []


def figure(results: Results) -> Figure | None:
    outcomes = _outcomes(results)
    if not outcomes:
        return None
    labels = [each.objective.label for each in reversed(outcomes)]
    traces = []
    sides = [("After", AFTER, "after"), ("Before", BEFORE, "before")]
    if results.verify and not results.verify.recommended:
        sides = [("Today", BEFORE, "before")]
    for name, colour, key in sides:
        values = [getattr(each, key) for each in reversed(outcomes)]
        limits = [each.objective for each in reversed(outcomes)]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": name,
                "y": labels,
                "x": [
                    None if value is None else 100 * value / of.limit for value, of in zip(values, limits, strict=True)
                ],
                "text": [quantity(value, of.unit) for value, of in zip(values, limits, strict=True)],
                "textposition": "auto",
                "textangle": 0,
                "marker": {"color": colour},
                "hovertemplate": f"{name}: %{{text}}, %{{x:.0f}} % of the limit<extra></extra>",
            }
        )
    form = layout(
        "% of the limit",
        "",
        height=150 + 70 * len(labels),
        barmode="group",
        xaxis={"rangemode": "tozero"},
        legend={"traceorder": "reversed"},
    )
    return {"data": traces, "layout": form | limit_line("x", 100, "limit")}


def table(results: Results) -> Table:
    rows = [
        [each.objective.label, each.before, each.after, each.objective.limit, each.objective.unit, each.samples]
        for each in _outcomes(results)
    ]
    return ["objective", "before", "after", "limit", "unit", "samples"], rows


CHART = Chart(
    "objectives",
    "Objectives against their limits",
    "Each bar is a percentile as a share of its limit. Latencies should end left of the line, throughput right of it.",
    "verify",
    "measured",
    figure,
    table,
)
