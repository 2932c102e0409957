"""Charts as plotly figures in plain JSON, each with its table. No Django, no torch, no plotly import.

A chart is one file with `figure(results)` and `table(results)` and one line in `CHARTS`. The pages draw the figures
with plotly.js; the self-contained report draws the same figures with `workers.charts.svg`.
"""

from workers.charts import (
    chosen,
    decisions,
    economics,
    endpoint,
    latency,
    objectives,
    plans,
    roofline,
    time_spent,
    under_load,
    waterfall,
)
from workers.charts.base import Chart

CHARTS: tuple[Chart, ...] = (
    objectives.CHART,
    latency.CHART,
    endpoint.CHART,
    chosen.CHART,
    time_spent.CHART,
    roofline.CHART,
    plans.CHART,
    decisions.CHART,
    under_load.CHART,
    under_load.PROMISE,
    waterfall.CHART,
    economics.CHART,
)
"""Every chart of a result, in the order of the page: one line each."""
