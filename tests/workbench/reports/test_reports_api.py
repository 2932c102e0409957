"""Reports and prices over the API."""

import pytest
import sample_runs

from workbench.reports.schemas import MOST_NOTE


@pytest.fixture
def done(organisation, engineer):
    return sample_runs.run(organisation, engineer)


def _post(client, path, body=None):
    return client.post(f"/api/v1{path}", body or {}, content_type="application/json")


def test_freeze_review_publish(api, engineer, account, done):
    made = _post(api(engineer), "/reports", {"run": str(done.id)})
    assert made.status_code == 201
    report = made.json()
    assert (report["state"], report["verdict"], report["run"]) == ("draft", "met", str(done.id))
    client = api(account)
    assert _post(client, f"/reports/{report['id']}/publish").status_code == 409
    long = _post(client, f"/reports/{report['id']}/review", {"note": "x" * (MOST_NOTE + 1)})
    assert long.status_code == 422, "the page would not show it in its form again"
    wide = _post(client, f"/reports/{report['id']}/review", {"note": f"{'|a' * 300}\n{'|-' * 300}\n" + "|\n" * 1000})
    assert (wide.status_code, wide.json()["detail"]) == (409, "The note's tables may have 2,000 cells; leave some out.")
    assert _post(client, f"/reports/{report['id']}/review", {"note": "ok"}).json()["note"] == "ok"
    assert _post(client, f"/reports/{report['id']}/publish").json()["state"] == "published"
    assert [each["id"] for each in client.get("/api/v1/reports").json()["items"]] == [report["id"]]
    snapshot = client.get(f"/api/v1/reports/{report['id']}").json()["snapshot"]
    assert snapshot["results"]["verify"]["verdict"] == "met"


def test_an_unfinished_run_is_a_conflict(api, engineer, organisation):
    run = sample_runs.run(organisation, engineer, "running", "verify")
    answer = _post(api(engineer), "/reports", {"run": str(run.id)})
    assert answer.status_code == 409
    assert answer["Content-Type"] == "application/problem+json"
    assert "Only a finished run" in answer.json()["detail"]
