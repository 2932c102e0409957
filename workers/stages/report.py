"""The report: one HTML file that opens from a disk, offline, without scripts, and the plan as a file of its own."""

import json
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader

from workers import budget
from workers.charts import CHARTS, cells, plans, provenance, text
from workers.charts.svg import draw
from workers.documents.stages import ReportResult, StageInput, Verdict, VerifyResult
from workers.documents.workload import Sla
from workers.harness.context import Context, StageError

VERDICTS: dict[Verdict, str] = {
    "met": "Met",
    "missed": "Missed",
    "not_enough_samples": "Not enough samples",
    "too_close": "Too close to call",
}

TEMPLATES = Path(__file__).parent.parent / "templates"


def headline(verify: VerifyResult) -> str:
    """The result in one line: `Met: TTF64 p50 81.0 ms (limit 100 ms), 3.47x faster than before in the median`."""
    first = verify.outcomes[0]
    after, limit = (text.quantity(value, first.objective.unit) for value in (first.after, first.objective.limit))
    line = f"{VERDICTS[verify.verdict]}: {first.objective.label} {after} (limit {limit})"
    return f"{line}, {speedup_words(verify)}"


def speedup_words(verify: VerifyResult) -> str:
    """The paired ratio in words; inside the noise floor it is no difference."""
    if verify.speedup is None:
        return "no change recommended"
    ratio = verify.speedup.ratio.value
    if not verify.speedup.difference:
        return "no difference to before"
    return f"{text.times(ratio, verify.outcomes[0].objective.unit)} than before in the median"


def _charts(document: StageInput) -> list[dict[str, Any]]:
    drawn = []
    for chart in CHARTS:
        figure = chart.figure(document.results)
        table = chart.table(document.results)
        drawn.append(
            {
                "chart": chart,
                "svg": draw(figure, chart.title) if figure else "",
                "headers": cells.headers(table),
                "rows": cells.rows(table),
                "provenance": provenance.sentence(document.results, chart.stage),
            }
        )
    return [each for each in drawn if each["rows"]]


def render(document: StageInput) -> str:
    """The report as HTML. Raises StageError when the run has not been verified."""
    verify = document.results.verify
    if verify is None:
        raise StageError("report: the run has no verified result to report")
    templates = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True)
    templates.filters |= {"quantity": text.quantity, "number": text.number, "percent": text.percent}
    templates.filters |= {"scaled": text.scaled, "dollars": text.dollars}
    workload = document.workload
    return templates.get_template("report.html").render(
        document=document,
        workload=workload,
        results=document.results,
        verify=verify,
        verdicts=VERDICTS,
        headline=headline(verify),
        request_words=text.request_words(workload.traffic, document.model.kind == "decoder", document.model.counted),
        speedup_words=speedup_words(verify),
        charts=_charts(document),
        chosen_plan=plans.chosen(document.results),
        why_chosen=plans.why(document.results),
        time_words=budget.sentence(workload.constraints.minutes, document.taken),
        facts=provenance.facts(verify.environment),
        provenance=provenance.sentence(document.results, "verify"),
        sla=Sla.model_validate(workload.model_dump(exclude={"model"})).model_dump_json(indent=2, exclude_none=True),
        plan=json.dumps(verify.plan, indent=2),
    )


def run(document: StageInput, context: Context) -> ReportResult:
    """The report stage. Raises StageError when the run has not been verified."""
    context.say(0.2, "writing the report")
    page = render(document)
    verify = document.results.verify
    assert verify is not None
    html_file, plan_file = context.artifacts / "report.html", context.artifacts / "plan.json"
    html_file.parent.mkdir(parents=True, exist_ok=True)
    html_file.write_text(page, encoding="utf-8")
    plan_file.write_text(json.dumps(verify.plan, indent=2) + "\n", encoding="utf-8")
    context.say(1.0, "wrote the report")
    return ReportResult(
        html=context.keep(html_file, "report.html", "text/html"),
        plan=context.keep(plan_file, "plan.json", "application/json"),
        verdict=verify.verdict,
        headline=headline(verify),
    )


if __name__ == "__main__":
    from workers.harness.cli import main

    main(run)
