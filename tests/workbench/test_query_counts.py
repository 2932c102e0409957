"""How many queries each list takes: written down here, and the same however long the list is; long ones have pages."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests import sample_bring_up, sample_results, sample_runs
from workbench.accounts import services, tokens
from workbench.intake.services.workloads import create_workload
from workbench.reports.services import freeze
from workbench.runs.models import Worker

pytestmark = pytest.mark.django_db
BASELINE = {
    "/workloads/": 15,
    "/models/": 6,
    "/reports/": 7,
    "/members/": 6,
    "/tokens/": 6,
    "/prices/": 8,
    "/bring-ups/": 6,
    "/inbox/": 6,
    "/activity/": 7,
    "/api/v1/workloads": 5,
    "/api/v1/models": 4,
    "/api/v1/uploads": 4,
    "/api/v1/runs": 5,
    "/api/v1/reports": 4,
    "/api/v1/bring-ups": 4,
}


@pytest.mark.parametrize("address", BASELINE)
def test_a_longer_list_takes_no_more_queries(browser, make_run, make_user, organisation, engineer, address):
    client = browser(engineer)
    counts = []
    for number, model in enumerate(("tiny-qwen2", "tiny-gpt2", "tiny-gemma")):
        create_workload(organisation, engineer, sample_results.workload().model_copy(update={"model": model}))
        freeze(make_run(), engineer)
        sample_bring_up.row(organisation, engineer)
        make_user(f"member{number}@voice.test", organisation)
        tokens.issue(organisation, engineer, f"token {number}", "read")
        client.get(address)
        with CaptureQueriesContext(connection) as queries:
            assert client.get(address).status_code == 200
        counts.append(len(queries))
    assert counts == [BASELINE[address]] * 3


@pytest.mark.parametrize("address", ["/members/", "/tokens/"])
def test_a_long_list_is_cut_into_pages(browser, make_user, organisation, admin, address):
    for number in range(60):
        user = make_user(f"member{number}@voice.test", organisation)
        tokens.issue(organisation, user, f"token {number}", "read")
    client = browser(admin)
    first, second = (client.get(address, {"page": number}).content.decode() for number in (1, 2))
    assert "Page 1 of 2" in first
    assert first.count("<tr>") == 51
    assert 10 <= second.count("<tr>") <= 13


def test_more_open_runs_take_no_more_queries(browser, organisation, engineer):
    done, now = sample_runs.run(organisation, engineer), timezone.now()
    Worker.objects.create(name="w", gpu_class=done.gpu_class, last_seen=now)
    client, counts = browser(engineer), []
    for _ in range(3):
        sample_runs.run(organisation, engineer, state="queued", upto="admit")
        with CaptureQueriesContext(connection) as queries:
            assert client.get("/workloads/").status_code == 200
        counts.append(len(queries))
    assert counts[1:] == [counts[1]] * 2


def test_open_invitations_are_cut_into_pages(browser, organisation, admin):
    for number in range(60):
        services.invite(organisation, admin, f"new{number}@voice.test", "engineer")
    client = browser(admin)
    assert client.get("/members/").content.decode().count("Withdraw the invitation") == 50
    assert client.get("/members/?invited=2").content.decode().count("Withdraw the invitation") == 10
