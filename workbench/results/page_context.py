"""The template context of a result, for the page of a run and for a frozen report."""

from dataclasses import dataclass
from typing import Any

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from workbench.runs.services import StageTime
from workers.charts import (
    CHARTS,
    cells,
    decisions,
    economics,
    endpoint,
    latency,
    plans,
    prediction,
    time_spent,
    timeline,
    under_load,
)
from workers.charts.base import Figure, Table
from workers.charts.svg import draw
from workers.cost import against_endpoint, loads, run_economics, same_load
from workers.documents import budget
from workers.documents.model import ModelManifest
from workers.documents.stages import Results
from workers.documents.workload import Workload, metric_title
from workers.report import other_limit, summary
from workers.wording import plan_profile, provenance, serving, text

PLACED = (
    *("objectives", "latency", "endpoint", "chosen", "time", "roofline", "plans", "decisions", "load", "load_promise"),
    "waterfall",
    "economics",
)
"""Charts with a section of their own in the template. The other charts follow at the end of the page."""
UNDECIDED = {
    "not_enough_samples": "Undecided: neither met nor missed. With more minutes a run serves more requests.",
    "too_close": "Undecided: the figures lie too near the limit. A run with more minutes measures more requests.",
}
"""What an undecided verdict means, and what would decide it."""
DEFINED = {
    "objectives": "verdict",
    "latency": "percentile",
    "endpoint": "the-customers-endpoint",
    "chosen": "choice-of-the-plan",
    "time": "attributed-share",
    "roofline": "roofline",
    "plans": "choice-of-the-plan",
    "decisions": "operations",
    "load": "the-highest-load",
    "load_promise": "the-highest-load",
    "waterfall": "steps",
    "economics": "m-tokens",
    "front": "cost-against-latency",
    "timeline": "minutes",
}
"""The anchor in docs/method.md that says what a chart shows, by the chart's key."""


@dataclass(frozen=True)
class ChartView:
    """A chart as the template shows it; `figure` is None where only the table is known."""

    key: str
    title: str
    note: str
    basis: str
    provenance: str
    figure: Figure | None
    headers: list[tuple[str, bool]]
    rows: list[list[tuple[str, bool]]]

    @property
    def anchor(self) -> str:
        """The line of docs/method.md that says what it shows; "" where no line is about it."""
        return "percentile" if self.key.startswith("latency-") else DEFINED.get(self.key, "")

    @property
    def svg(self) -> str:
        """The figure for readers without scripts."""
        return draw(self.figure, self.title) if self.figure else ""

    @property
    def body(self) -> SafeString:
        """The rows of the table; written here, since a loop of the template takes ten times as long."""
        return mark_safe("".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in self.rows))

    @property
    def data_id(self) -> str:
        return f"figure-{self.key}"


def _cell(cell: tuple[str, bool]) -> str:
    text, numeric = cell
    return f'<td class="number">{escape(text)}</td>' if numeric else f"<td>{escape(text)}</td>"


def chart_view(
    key: str, title: str, note: str, basis: str, where: str, figure: Figure | None, table: Table
) -> ChartView:
    """A chart with its table as the template shows it."""
    return ChartView(key, title, note, basis, where, figure, cells.headers(table), cells.rows(table))


def charts(results: Results) -> dict[str, ChartView]:
    """Every chart that has something to show, by its key."""
    all_charts = {
        chart.key: chart_view(
            chart.key,
            chart.title,
            chart.note,
            chart.basis,
            provenance.sentence(results, chart.stage),
            chart.figure(results),
            chart.table(results),
        )
        for chart in CHARTS
    }
    return {key: chart for key, chart in all_charts.items() if chart.rows}


def more_latencies(results: Results) -> list[ChartView]:
    """The distributions of the metrics after the first."""
    where = provenance.sentence(results, "verify")
    return [
        chart_view(
            f"latency-{metric}-{n or 0}",
            f"Distribution of {metric_title(metric, n)}",
            "",
            "measured",
            where,
            latency.figure_of(results, (metric, n)),
            latency.table_of(results, (metric, n)),
        )
        for metric, n in latency.metrics(results)[1:]
    ]


def timeline_chart(times: list[StageTime]) -> ChartView | None:
    """How long each stage took."""
    spans = [timeline.StageSpan(stage.stage, stage.start_s, stage.duration_s) for stage in times]
    if not spans:
        return None
    return chart_view(
        "timeline", "How long each stage took", "", "measured", "", timeline.figure(spans), timeline.table(spans)
    )


def time_words(workload: Workload | None, times: list[StageTime], results: Results) -> str:
    """Whether the stages kept to the workload's minutes; "" when the workload cannot be read."""
    if workload is None:
        return ""
    return budget.sentence(workload, {stage.stage: stage.duration_s for stage in times}, results)


def request_words(workload: Workload | None, model: ModelManifest | None) -> str:
    """What one request is; "" where workload or model cannot be read."""
    if workload is None or model is None:
        return ""
    return text.request_words(workload.traffic, model)


def context(
    workload: Workload | None, model: ModelManifest | None, results: Results, times: list[StageTime]
) -> dict[str, Any]:
    """Everything `results/_result.html` reads; `workload` is None when it cannot be read any more."""
    environment = provenance.environment(results, "verify") or provenance.environment(results, "baseline")
    shown = charts(results)
    named, profile = results.verify or workload, results.verify.profile if results.verify else None
    compared_with = named.compared_with if named else "before"
    return (
        {
            "sla": workload,
            "manifest": model,
            "request_words": request_words(workload, model),
            "results": results,
            "on_cpu": environment is not None and environment.gpu_class == "cpu",
            "verify": results.verify,
            "compared_with": compared_with,
            "when_before": text.when_before(compared_with),
            "today": text.before_label(compared_with),
            "undecided": _undecided(results),
            "other_limit": other_limit.sentence(results, workload, model),
            "void": _void(results),
            "weights_words": summary.words(results.verify) if results.verify else "",
            "kept_loads": under_load.kept_loads(results.load) if results.load else "",
            "load_notes": under_load.load_notes(results),
            "kernels_by_load": under_load.kernels_by_load(results.load),
            "load_objectives": under_load.objective_words(results, workload.objectives if workload else []),
            "charts": shown,
            "other_charts": [chart for key, chart in shown.items() if key not in PLACED],
            "more_latencies": more_latencies(results),
            "timeline": timeline_chart(times),
            "busy": provenance.busy(results),
            "unlike_before": time_spent.unlike_before(results, workload),
            "before_words": text.before_words(workload, model) if workload and model else "",
            "left_lines": plan_profile.lines(profile) if profile else [],
            "gpus_words": provenance.gpus_words(results),
            "unlike_after": time_spent.unlike_after(results, workload),
            "time_words": time_words(workload, times, results),
            "predicted": prediction.rows(results),
            "predicted_words": prediction.words(results),
            "facts": provenance.facts(environment, results.verify.gpus if results.verify else 1) if environment else [],
            "provenance": provenance.sentence(results, "verify"),
        }
        | _costs(results, workload, model)
        | _endpoint(results, workload)
        | _plans(results, model)
    )


def _undecided(results: Results) -> str:
    """What would decide the verdict; "" where it is decided, or its sentence says it."""
    verify = results.verify
    if verify is None or verify.minutes_wanted or _void(results):
        return ""
    return UNDECIDED.get(verify.verdict, "")


def _void(results: Results) -> bool:
    """Whether other programs disturbed what verify measured, so that it decides nothing."""
    return results.verify is not None and any(outcome.void for outcome in results.verify.outcomes)


def _costs(results: Results, workload: Workload | None, model: ModelManifest | None) -> dict[str, Any]:
    """What the template reads of prices, unit costs, the demand and energy."""
    units = run_economics.of_results(results, workload, model) if workload and model else None
    anywhere = loads.of_results(results, workload, model) if workload and model else None
    same = same_load.of_results(results, workload, model) if workload and model else None
    sides = economics.sides(results)
    return {
        "price": results.price,
        "unit_rows": economics.unit_rows(units),
        "unit_sides": sides,
        "unit_loads": economics.loads(units, sides),
        "units": units,
        "same_load": same,
        "demand": run_economics.demand_of(units, workload, same) if workload and results.price else None,
        "any_load": anywhere,
        "any_load_rows": economics.any_load_rows(anywhere),
        "energy_words": economics.energy_words(units, sides),
        "price_lines": economics.lines(results),
        "price_caution": economics.caution(results, workload.traffic.batch) if workload else "",
    }


def _endpoint(results: Results, workload: Workload | None) -> dict[str, Any]:
    """What the template reads of the customer's endpoint."""
    return {
        "endpoint": endpoint.endpoint_result(results),
        "endpoint_objectives": endpoint.endpoint_objectives(results),
        "against_endpoint": against_endpoint.sentences(results, workload) if workload else [],
        "endpoint_words": endpoint.words(results),
        "endpoint_where": endpoint.where(results),
    }


def _plans(results: Results, model: ModelManifest | None) -> dict[str, Any]:
    """What the template reads of variants, plans and other engines."""
    trials = plans.rank_trials(results)
    return {
        "candidates": decisions.tried_candidates(results),
        "refused": decisions.refused_candidates(results),
        "trials": trials,
        "timed": sum(trial.primary is not None for trial in trials),
        "peers": plans.peers(results),
        "chosen_plan": plans.chosen_trial(results),
        "why_chosen": plans.why(results),
        "serving": serving.serve_instructions(results, model),
    }
