"""How many queries each list takes: written down here, and the same however long the list is."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests import sample_results
from workbench.accounts import tokens
from workbench.intake.services.workloads import create_workload
from workbench.reports.services import freeze

pytestmark = pytest.mark.django_db
BASELINE = {
    "/workloads/": 14,
    "/models/": 5,
    "/reports/": 6,
    "/members/": 4,
    "/tokens/": 4,
    "/prices/": 7,
    "/api/v1/workloads": 5,
    "/api/v1/models": 4,
    "/api/v1/uploads": 4,
    "/api/v1/runs": 4,
    "/api/v1/reports": 4,
}


@pytest.mark.parametrize("address", BASELINE)
def test_a_longer_list_takes_no_more_queries(browser, make_run, make_user, organisation, engineer, address):
    client = browser(engineer)
    counts = []
    for number, model in enumerate(("tiny-qwen2", "tiny-gpt2", "tiny-gemma")):
        create_workload(organisation, engineer, sample_results.workload().model_copy(update={"model": model}))
        freeze(make_run(), engineer)
        make_user(f"member{number}@voice.test", organisation)
        tokens.issue(organisation, engineer, f"token {number}", "read")
        client.get(address)
        with CaptureQueriesContext(connection) as queries:
            assert client.get(address).status_code == 200
        counts.append(len(queries))
    assert counts == [BASELINE[address]] * 3
