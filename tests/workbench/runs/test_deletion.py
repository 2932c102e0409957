"""Members delete what is theirs, with what depends on it, which is said beforehand."""

import os
from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone

from tests.workbench.intake.conftest import MODEL_FILES, upload_model
from workbench.accounts import tokens
from workbench.accounts.models import ApiToken
from workbench.api import quota
from workbench.api.models import IdempotentRequest
from workbench.intake import blobs
from workbench.intake.models import StoredFile, Workload
from workbench.reports.models import Report
from workbench.runs.models import Event, Run, StoredArtifact
from workbench.runs.tasks import sweep_runs


@pytest.fixture
def report(done, engineer):
    return Report.objects.create(organisation=done.organisation, run=done, title="t", verdict="met", snapshot={})


def _addresses(run: Run) -> dict[str, str]:
    return {
        "model": f"/api/v1/models/{run.workload.model_id}",
        "workload": f"/api/v1/workloads/{run.workload_id}",
        "run": f"/api/v1/runs/{run.id}",
    }


@pytest.mark.parametrize(
    ("kind", "counts", "sentence"),
    [
        ("model", (1, 1, 1), "1 workload, 1 run and 1 report would be deleted with it"),
        ("workload", (0, 1, 1), "1 run and 1 report would be deleted with it"),
        ("run", (0, 0, 1), "1 report would be deleted with it"),
    ],
)
def test_it_says_beforehand_what_goes(api, engineer, report, kind, counts, sentence):
    client, address = api(engineer), _addresses(report.run)[kind]
    text = client.get(f"{address}/dependents").json()
    assert (text["workloads"], text["runs"], text["reports"], text["files"]) == (*counts, 2)
    assert text["file_bytes"] == sum(StoredArtifact.objects.values_list("size", flat=True))
    refused = client.delete(address)
    assert refused.status_code == 409
    assert refused.json()["detail"].startswith(sentence)
    assert Report.objects.exists()
    assert client.delete(f"{address}?with_dependents=true").status_code == 204
    assert client.get(address).status_code == 404
    assert not Run.objects.exists()
    assert not Report.objects.exists()
    assert Workload.objects.exists() == (kind == "run")


def test_an_open_run_is_cancelled_first_and_only_an_admin_deletes_a_published_report(
    api, browser, engineer, admin, report
):
    run, client = report.run, api(engineer)
    Run.objects.update(state="running")
    for address in _addresses(run).values():
        refused = client.delete(f"{address}?with_dependents=true")
        assert (refused.status_code, "cancel them first" in refused.json()["detail"]) == (409, True)
    page = browser(engineer).post(f"/workloads/{run.workload_id}/delete/", follow=True)
    assert "Not deleted: 1 of its runs are not over" in page.content.decode()
    assert Run.objects.exists()
    Run.objects.update(state="done")
    Report.objects.update(state="published")
    address = f"{_addresses(run)['workload']}?with_dependents=true"
    assert client.delete(address).status_code == 403
    assert Report.objects.exists()
    assert api(admin).delete(address).status_code == 204


def test_others_delete_nothing_and_what_came_again_stays(api, browser, engineer, account, foreigner, done):
    for kind, address in _addresses(done).items():
        assert api(account).delete(address).status_code == 403
        assert api(foreigner).delete(address).status_code == 404
        key = address.rpartition("/")[2]
        assert browser(foreigner).post(f"/{kind}s/{key}/delete/").status_code == 404
    assert Run.objects.exists()
    blob = blobs.path_of(StoredArtifact.objects.first().sha256)
    os.utime(blob, (timezone.now().timestamp() + 1,) * 2)  # another run's stage sent it, and its result is yet to come
    assert api(engineer).delete(_addresses(done)["run"]).status_code == 204
    assert blob.exists()


@pytest.mark.parametrize("kind", ["model", "workload", "run"])
def test_the_page_asks_and_deletes(browser, engineer, report, kind):
    client, key = browser(engineer), _addresses(report.run)[kind].rpartition("/")[2]
    asked = client.get(f"/{kind}s/{key}/delete/").content.decode()
    assert f"Delete the {kind}" in asked
    assert "<dt>Reports</dt><dd>1</dd>" in asked
    assert Run.objects.exists()
    answer = client.post(f"/{kind}s/{key}/delete/", follow=True)
    assert f"The {kind} has been deleted." in answer.content.decode()
    assert not Run.objects.exists()


def test_the_space_is_free_at_once(api, engineer):
    """But for contents that somebody else refers to as well."""
    client = api(engineer)
    tokenizers = (b"{}", b'{"a": 1}')
    first, second = (
        upload_model(client, MODEL_FILES | {"tokenizer.json": tokenizer}).json() for tokenizer in tokenizers
    )
    assert first["id"] != second["id"]
    before = {file["path"]: blobs.path_of(file["sha256"]) for file in first["files"]}
    assert client.delete(f"/api/v1/models/{first['id']}").status_code == 204
    assert {path for path, blob in before.items() if blob.exists()} == {"config.json", "model.safetensors"}
    assert client.delete(f"/api/v1/models/{second['id']}").status_code == 204
    assert not any(blob.exists() for blob in before.values())
    assert not StoredFile.objects.exists()


def test_kept_files_count_against_the_quota_and_can_be_deleted(api, engineer, done, settings):
    client, artifact = api(engineer), StoredArtifact.objects.get(name="report.html")
    before = quota.used_bytes(done.organisation)
    StoredArtifact.objects.filter(pk=artifact.pk).update(size=artifact.size + 10_000)
    Run.objects.update(finished_at=timezone.now())
    settings.ORGANISATION_QUOTA_BYTES = quota.used_bytes(done.organisation)
    assert before + 10_000 == settings.ORGANISATION_QUOTA_BYTES
    body = {"workload": str(done.workload_id)}
    refused = client.post("/api/v1/runs", body)
    assert (refused.status_code, "the organisation's quota is used up" in refused.json()["detail"]) == (413, True)
    address = f"{_addresses(done)['run']}/artifacts/{artifact.stage}/{artifact.name}"
    assert client.delete(address).status_code == 204
    assert client.get(address).status_code == 404
    assert not blobs.path_of(artifact.sha256).exists()
    assert client.post("/api/v1/runs", body).status_code == 201


def test_a_schedule_removes_what_has_had_its_time(browser, api, engineer, done, settings):
    now = timezone.now()
    browser(engineer)
    Session.objects.update(expire_date=now - timedelta(days=1))
    browser(engineer)
    for age in (0, 2):
        row = IdempotentRequest.objects.create(
            organisation=done.organisation, caller="user:1", key=f"k{age}", digest="d"
        )
        IdempotentRequest.objects.filter(pk=row.pk).update(created_at=now - timedelta(days=age))
    ended, _ = tokens.issue(done.organisation, engineer, "ended", "read", days=1)
    living, _ = tokens.issue(done.organisation, engineer, "living", "read", days=1)
    ApiToken.objects.filter(pk=ended.pk).update(expires_at=now - timedelta(days=settings.EVENT_DAYS + 1))
    for kind in ("claimed", "progress"):
        Event.objects.create(run=done, stage="admit", attempt=1, kind=kind)
    Run.objects.update(finished_at=now - timedelta(days=settings.EVENT_DAYS + 1))
    sweep_runs()
    assert Session.objects.count() == 1
    assert list(ApiToken.objects.all()) == [living]
    assert [row.key for row in IdempotentRequest.objects.all()] == ["k0"]
    assert {event.kind for event in done.events.all()} == {"claimed", "stage_done"}
