"""A run that left plans out for time leads to one with the minutes that these take."""

import pytest
import sample_runs

from workbench.runs.models import Run
from workbench.runs.services import minutes_wanted


@pytest.fixture
def short(organisation, engineer):
    """A finished run whose verify stage names the minutes that it lacked."""
    run = sample_runs.run(organisation, engineer)
    stage = run.stages.get(stage="verify")
    stage.result |= {"verdict": "not_enough_samples", "minutes_wanted": 7.5}
    stage.save()
    return run


def test_the_result_page_offers_the_minutes_and_starts_such_a_run(browser, engineer, short):
    client = browser(engineer)
    page = client.get(f"/runs/{short.id}/result/").content
    assert b"Go on with 7.5 minutes" in page
    assert page.count(b"button-primary") == 1, "one thing is to be done next"
    answer = client.post(f"/runs/{short.id}/go-on/")
    longer = Run.objects.exclude(id=short.id).get()
    assert answer.url == f"/runs/{longer.id}/"
    assert longer.workload.sla.constraints.minutes == 7.5
    assert longer.workload.sla.objectives == short.workload.sla.objectives
    assert longer.workload.model.name == short.workload.model.name
    assert minutes_wanted(longer) is None


def test_a_run_that_left_nothing_out_offers_and_starts_nothing(browser, engineer, organisation):
    run = sample_runs.run(organisation, engineer)
    client = browser(engineer)
    assert b"Go on with" not in client.get(f"/runs/{run.id}/result/").content
    answer = client.post(f"/runs/{run.id}/go-on/", follow=True)
    assert "Not started: the run left out no plan for time." in answer.content.decode()
    assert Run.objects.count() == 1


def test_only_those_who_may_submit_go_on(browser, account, short):
    client = browser(account)
    assert b"Go on with" not in client.get(f"/runs/{short.id}/result/").content
    assert client.post(f"/runs/{short.id}/go-on/").status_code == 403
    assert Run.objects.count() == 1
