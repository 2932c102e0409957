"""Every objective before and after, as a share of its limit."""

from workers.charts.base import AFTER, BEFORE, Chart, Figure, Table, layout, limit_line
from workers.documents.stages import ObjectiveOutcome, Results
from workers.wording.text import before_label, objective_limit, quantity


def _outcomes(results: Results) -> list[ObjectiveOutcome]:
    return results.verify.outcomes if results.verify else []


def figure(results: Results) -> Figure | None:
    outcomes = _outcomes(results)
    if not outcomes or results.verify is None:
        return None
    labels = [outcome.objective.label for outcome in reversed(outcomes)]
    traces = []
    verify = results.verify
    sides = [("After", AFTER, "after"), (verify.compared_with.capitalize(), BEFORE, "before")]
    if not verify.recommended:
        sides = [(before_label(verify.compared_with).capitalize(), BEFORE, "before")]
    for name, colour, key in sides:
        values = [(getattr(outcome, key), outcome) for outcome in reversed(outcomes)]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": name,
                "y": labels,
                "x": [_share(value, outcome) for value, outcome in values],
                "text": [quantity(value, outcome.objective.unit) for value, outcome in values],
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
    return {"data": traces, "layout": form | limit_line("x", 100)}


def _share(value: float | None, outcome: ObjectiveOutcome) -> float | None:
    """The value in per cent of its limit; that of a promise relative to before follows from the value before."""
    limit = outcome.objective.limit_beside(outcome.before)
    return None if value is None or not limit else 100 * value / limit


def table(results: Results) -> Table:
    rows = [
        [
            outcome.objective.label,
            outcome.before,
            outcome.after,
            objective_limit(outcome.objective),
            outcome.objective.unit,
            outcome.samples,
        ]
        for outcome in _outcomes(results)
    ]
    compared_with = results.verify.compared_with if results.verify else "before"
    return ["objective", compared_with, "after", "promised", "unit", "samples"], rows


CHART = Chart(
    "objectives",
    "Objectives against their limits",
    "Each bar is a percentile as a share of its limit. Latencies should end left of the line, throughput right of it.",
    "verify",
    "measured",
    figure,
    table,
)
