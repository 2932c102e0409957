"""A result whose load stage replayed a recording names it and counts the load in speeds."""

from typing import Any

from tests import sample_runs
from workbench.accounts.models import Organisation, User

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
