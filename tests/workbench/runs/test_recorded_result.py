"""A result whose load stage replayed a recording: page, report, charts and terminal count the load in speeds."""

from io import StringIO
from typing import Any

from rich.console import Console

from tests import sample_loads, sample_results, sample_runs
from workbench.accounts.models import Organisation, User
from workbench.cli import load_tables
from workers.charts import under_load
from workers.documents.prices import default_price_book
from workers.report.page import render
from workers.stages.price import price

HELD = "every promise is kept at 2 times the recorded speed"
HOW = "Every load replays it from its first line on, for as many seconds as the load lasts."
REPLAYED = f"calls.csv: 12,000 requests over 600 s. {HOW}"


def test_pages_name_the_recording_and_the_speed_that_holds(
    browser: Any, engineer: User, organisation: Organisation
) -> None:
    run = sample_runs.run(organisation, engineer, load=True)
    sample_runs.replaying(run, engineer)
    result = " ".join(browser(engineer).get(f"/runs/{run.id}/result/").content.decode().split())
    assert REPLAYED in result
    assert HELD in result.replace("\N{NO-BREAK SPACE}", " ")
    workload = " ".join(browser(engineer).get(f"/workloads/{run.workload_id}/").content.decode().split())
    assert "12,000 requests over 600 s" in workload
    copy = browser(engineer).get(f"/workloads/new/?from={run.workload_id}").content.decode()
    assert f'<option value="{"c" * 64}" selected>calls.csv: 12,000 requests over 600 s</option>' in copy
    assert copy.count('<option value="recorded" selected>') == 3


def test_report_charts_and_terminal_count_in_speeds() -> None:
    found = sample_loads.replayed(sample_loads.under_load())
    results = sample_results.results().model_copy(update={"load": found})
    report = render(sample_results.stage_input().model_copy(update={"results": results}))
    assert REPLAYED in report
    assert "times the recorded speed" in report
    assert under_load.promise_table(results)[0][2] == "times the recorded speed that hold"
    assert [row[2] for row in under_load.promise_table(results)[1]] == ["none", 2.0]
    about = sample_loads.workload(), default_price_book(), "h200", results.verify, sample_results.manifest()
    priced = price(*about, found)
    assert "2 times the recorded speed" in priced.sentence
    printed = StringIO()
    load_tables.under_load(found, Console(file=printed, width=160))
    assert "3.2x" in printed.getvalue()
    assert HELD in printed.getvalue()
