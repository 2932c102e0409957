"""The report: one HTML file that opens from a disk, offline, without scripts, and the plan as a file of its own."""

import json

from workers.charts import prediction
from workers.documents.stages import ReportResult, StageInput
from workers.harness.context import Context, StageError
from workers.report.page import NoVerdict, headline, render
from workers.wording.serving import served_plan


def run(document: StageInput, context: Context) -> ReportResult:
    """The report stage. Raises StageError when the run has not been verified."""
    context.report_progress(0.2, "writing the report")
    try:
        page = render(document)
    except NoVerdict as error:
        raise StageError(str(error)) from error
    verify = document.results.verify
    assert verify is not None
    html_file, plan_file = context.artifacts / "report.html", context.artifacts / "plan.json"
    html_file.parent.mkdir(parents=True, exist_ok=True)
    html_file.write_text(page, encoding="utf-8")
    plan_file.write_text(json.dumps(served_plan(document.results), indent=2) + "\n", encoding="utf-8")
    context.report_progress(1.0, "wrote the report")
    return ReportResult(
        html=context.save_artifact(html_file, "report.html", "text/html"),
        plan=context.save_artifact(plan_file, "plan.json", "application/json"),
        verdict=verify.verdict,
        headline=headline(verify, document.results.load),
        predicted=prediction.compare_with_measured(document.results),
    )


if __name__ == "__main__":
    from workers.harness.cli import main

    main(run)
