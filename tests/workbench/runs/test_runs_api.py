"""Runs in the public API."""

import uuid
from collections.abc import Callable
from typing import Any

import sample_runs
from django.test import Client

from workbench.accounts.models import Organisation, User
from workbench.intake.models import Workload
from workbench.runs.models import Run

Api = Callable[..., Client]


def _post(client: Client, path: str, body: dict[str, Any] | None = None) -> Any:
    return client.post(f"/api/v1{path}", body or {}, content_type="application/json")


def test_a_run_is_started_read_and_listed(api: Api, engineer: User, workload: Workload) -> None:
    client = api(engineer)
    made = _post(client, "/runs", {"workload": str(workload.id)})
    assert made.status_code == 201
    read = client.get(f"/api/v1/runs/{made.json()['id']}").json()
    assert (read["state"], read["verdict"], len(read["stages"])) == ("queued", None, 8)
    assert read["waiting"] == "Waiting for a worker of class h200."
    listed = client.get("/api/v1/runs", {"state": "queued", "workload": str(workload.id)}).json()
    assert [item["id"] for item in listed["items"]] == [read["id"]]
    assert client.get("/api/v1/runs", {"state": "done"}).json()["items"] == []


def test_a_class_that_the_workload_does_not_allow_is_refused(api: Api, engineer: User, workload: Workload) -> None:
    answer = _post(api(engineer), "/runs", {"workload": str(workload.id), "gpu_class": "b200"})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "gpu_class"
    assert Run.objects.count() == 0


def test_cancel_tells_when_the_run_is_over(api: Api, engineer: User, run: Run) -> None:
    client = api(engineer)
    assert _post(client, f"/runs/{run.id}/cancel").json()["state"] == "cancelled"
    again = _post(client, f"/runs/{run.id}/cancel")
    assert (again.status_code, again.json()["detail"]) == (409, "state: the run is over: it is cancelled")


def test_events_are_followed_from_the_last_one(api: Api, engineer: User, run: Run) -> None:
    client = api(engineer)
    first = client.get(f"/api/v1/runs/{run.id}/events").json()
    assert [item["kind"] for item in first["items"]] == ["queued"]
    _post(client, f"/runs/{run.id}/cancel")
    later = client.get(f"/api/v1/runs/{run.id}/events", {"after": first["last"]}).json()
    assert [item["kind"] for item in later["items"]] == ["cancel_requested", "cancelled"]


def test_results_plan_and_files_of_a_finished_run(api: Api, engineer: User, organisation: Organisation) -> None:
    run = sample_runs.run(organisation, engineer)
    client = api(engineer)
    result = client.get(f"/api/v1/runs/{run.id}/result").json()
    assert (result["state"], result["verdict"]) == ("done", "met")
    assert result["results"]["verify"]["verdict"] == "met"
    assert client.get(f"/api/v1/runs/{run.id}/plan").json() == result["results"]["verify"]["plan"]
    assert client.get(f"/api/v1/runs/{run.id}/stages/admit").json()["result"]["family"] == "llama"
    page = client.get(f"/api/v1/runs/{run.id}/artifacts/report/report.html")
    assert page["Content-Disposition"].startswith("attachment")


def test_there_is_no_plan_before_there_is_one(api: Api, engineer: User, run: Run) -> None:
    client = api(engineer)
    assert client.get(f"/api/v1/runs/{run.id}/plan").status_code == 404
    assert client.get(f"/api/v1/runs/{uuid.uuid4()}").status_code == 404
