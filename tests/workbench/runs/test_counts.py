"""How much of everything an organisation may have; lists are pages."""

from typing import Any

import pytest

from tests.workbench.intake.conftest import announce
from workbench.runs.models import Run


@pytest.fixture(autouse=True)
def _few(settings):
    settings.ORGANISATION_OPEN_UPLOADS = settings.ORGANISATION_OPEN_RUNS = 2
    settings.ORGANISATION_WORKLOADS = settings.ORGANISATION_RUNS = 3
    settings.ORGANISATION_MODELS = 2


def test_open_uploads_open_runs_and_runs(api, engineer, foreigner, browser, workload):
    empty = {"config.json": b"{}"} | {f"part-{number}.json": b"" for number in range(999)}
    answers = [announce(api(engineer), empty) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201, 201, 409]
    assert "the organisation has 2 open uploads" in answers[-1].json()["detail"]
    assert announce(api(foreigner), empty).status_code == 201
    client, body = api(engineer), {"workload": str(workload.id)}

    def start() -> Any:
        return client.post("/api/v1/runs", body)

    assert [start().status_code for _ in range(3)] == [201, 201, 409]
    assert "wait until one has ended, or cancel one" in start().json()["detail"]
    page = browser(engineer).post(f"/workloads/{workload.id}/run/", follow=True)
    assert "2 open runs" in page.content.decode()
    Run.objects.update(state="done")
    assert [start().status_code for _ in range(2)] == [201, 409]
    Run.objects.update(state="done")
    assert "the organisation has 3 runs" in start().json()["detail"]


def test_models_and_workloads(api, engineer, workload):
    client = api(engineer)
    document = {"objectives": [{"metric": "ttft", "limit": 5}]}
    models = ("tiny-llama", "tiny-gpt2", "tiny-llama")
    answers = [client.post("/api/v1/workloads", document | {"model": model}) for model in models]
    assert [answer.status_code for answer in answers] == [201, 201, 409]
    refused = announce(client, {"config.json": b"{}"})
    assert (refused.status_code, "models" in refused.json()["detail"]) == (409, True)


def test_a_workload_with_many_runs_is_a_page_of_25(api, browser, engineer, workload):
    Run.objects.bulk_create(
        Run(organisation=workload.organisation, workload=workload, gpu_class="cpu", state="done") for _ in range(1000)
    )
    client = browser(engineer)
    first, last = (client.get(f"/workloads/{workload.id}/?page={number}") for number in (1, 40))
    assert len(first.content) < 50_000
    assert first.content.decode().count("/runs/") == last.content.decode().count("/runs/") == 25
    document = api(engineer).get(f"/api/v1/workloads/{workload.id}").json()
    assert len(document["runs"]) == 25
    assert document["runs"][0] == str(Run.objects.first().pk)  # type: ignore[union-attr]
    listed = api(engineer).get("/api/v1/workloads").json()["items"]
    assert [len(item["runs"]) for item in listed] == [25]
