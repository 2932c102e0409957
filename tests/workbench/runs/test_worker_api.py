"""The worker API: one token, one holder of an attempt, and documents that are checked before they count."""

import hashlib
import uuid
from datetime import timedelta
from typing import Any

import pytest
import sample_results
from django.conf import settings
from django.utils import timezone

from tests.workbench.conftest import JsonClient
from workbench.intake import blobs
from workbench.intake.models import StoredFile
from workbench.runs import services, state
from workbench.runs.models import Run, StoredArtifact, Worker
from workers.documents.stages import StageInput
from workers.documents.worker_api import CLAIM_HEADER

ADMIT: dict[str, Any] = sample_results.results().admit.model_dump(mode="json")  # type: ignore[union-attr]
Call = Any
pytestmark = pytest.mark.urls("workbench.worker_site.urls")


@pytest.fixture
def claimed(worker, run, key):
    """The key of a stage that this worker holds."""
    assert worker("claim", {**key.model_dump(), "worker": "w"}).status_code == 200
    return key.model_dump()


def test_a_claim_gets_everything_the_stage_needs_again_if_its_answer_was_lost(worker, run, key):
    claim = {**key.model_dump(), "worker": "w", "gpu_class": run.gpu_class, "claim_id": str(uuid.uuid4())}
    first, again = worker("claim", claim), worker("claim", claim)
    document = StageInput.model_validate_json(first.content)
    assert (document.run_id, document.stage, document.gpu_class) == (str(run.id), "admit", "h200")
    assert (document.organisation, document.model) == (str(run.organisation_id), run.workload.model.facts)
    assert 0 < document.seconds_left < 360
    assert (again.status_code, again.content) == (200, first.content)
    assert again.headers[CLAIM_HEADER] == first.headers[CLAIM_HEADER]
    assert run.events.filter(kind="claimed").count() == 1
    assert worker("claim", claim | {"claim_id": str(uuid.uuid4())}).status_code == 409
    assert worker("claim", claim | {"claim_id": "no id"}).status_code == 422
    assert worker("result", {**key.model_dump(), "died": "its process ended"}).status_code == 204
    assert worker("claim", claim | {"gpu_class": ""}).status_code == 409, "the attempt was given up"


@pytest.mark.parametrize("stage", ["price", "report"])
def test_no_worker_gets_a_stage_whose_files_the_web_believes(worker, run, key, stage):
    Run.objects.filter(id=run.id).update(stage=stage)
    for gpu_class in ("", run.gpu_class):
        claim = {**key.model_dump(), "stage": stage, "worker": "w", "gpu_class": gpu_class}
        assert worker("claim", claim).status_code == 409
    assert state.claim(key.model_copy(update={"stage": stage}), "ledger") is not None


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("heartbeat", {}),
        ("progress", {"lines": [{"fraction": 0.5, "message": "half"}]}),
        ("result", {"result": ADMIT}),
        ("result", {"failure": {"sentence": "no"}}),
        ("result", {"died": "it died"}),
        ("result", {"cancelled": True}),
    ],
)
def test_an_attempt_that_is_not_held_is_a_409(worker, claimed, run, path, more):
    answer = worker(path, {**claimed, "attempt": 2, **more})
    assert answer.status_code == 409
    run.refresh_from_db()
    assert (run.state, run.attempt) == ("running", 1)


def test_a_result_that_is_none_leaves_the_stage_held_until_a_heartbeat_brings_the_cancel(worker, claimed, run):
    answer = worker("result", {**claimed, "result": {**ADMIT, "parameters": "many"}})
    assert (answer.status_code, "admit.parameters" in answer.json()["detail"]) == (422, True)
    assert worker("result", claimed).status_code == 422
    run.refresh_from_db()
    assert run.state == "running"
    assert worker("heartbeat", claimed).json() == {"cancel": False}
    Run.objects.filter(id=run.id).update(cancel_requested=True)
    assert worker("heartbeat", claimed).json() == {"cancel": True}
    assert worker("result", {**claimed, "cancelled": True}).status_code == 204
    run.refresh_from_db()
    assert run.state == "cancelled"


def test_a_kept_file_is_stored_under_its_hash(worker, claimed, run):
    content = b"trace"
    sha256 = hashlib.sha256(content).hexdigest()
    outcome = {**claimed, "result": ADMIT, "artifacts": [{"name": "trace.json", "sha256": sha256, "size": 5}]}
    assert worker("result", outcome).status_code == 422
    assert _put(worker.client, claimed, sha256, b"another").status_code == 422
    assert not blobs.path_of(sha256).exists()
    receipt = _put(worker.client, claimed, sha256, content).json()["receipt"]
    assert worker("result", outcome | {"receipts": {sha256: receipt}}).status_code == 204
    assert StoredArtifact.objects.get(run=run).name == "trace.json"
    assert blobs.path_of(sha256).read_bytes() == content


@pytest.mark.parametrize("receipt", ["", "wrong", "\u00e9"])
def test_the_hash_of_anothers_file_does_not_make_it_an_artifact(worker, claimed, run, receipt):
    """A worker that knows the hash of what is stored has to send the content before its run may keep it."""
    sha256, size = blobs.store([b"weights of another organisation"])
    kept = {"name": "mine", "sha256": sha256, "size": size}
    answer = worker("result", {**claimed, "result": ADMIT, "artifacts": [kept], "receipts": {sha256: receipt}})
    assert (answer.status_code, answer.json()["detail"]) == (422, "artifacts: mine has not been uploaded")
    assert not StoredArtifact.objects.filter(run=run).exists()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"sha256": "x"}, "artifacts[0].sha256"),
        ({"sha256": "../" * 20 + "abcd"}, "artifacts[0].sha256"),
        ({"name": "n" * 201}, "artifacts[0].name"),
        ({"name": ""}, "artifacts[0].name"),
        ({"media_type": "m" * 101}, "artifacts[0].media_type"),
        ({"size": 10**30}, "artifacts[0].size"),
        ({"size": 4}, "trace.json has 5 bytes, not 4"),
    ],
)
def test_an_artifact_that_cannot_be_kept_is_refused(worker, claimed, run, change, sentence):
    sha256 = hashlib.sha256(b"trace").hexdigest()
    receipts = {sha256: _put(worker.client, claimed, sha256, b"trace").json()["receipt"]}
    artifact = {"name": "trace.json", "sha256": sha256, "size": 5} | change
    answer = worker("result", {**claimed, "result": ADMIT, "artifacts": [artifact], "receipts": receipts})
    assert (answer.status_code, sentence in answer.json()["detail"]) == (422, True)
    run.refresh_from_db()
    assert run.state == "running"


@pytest.fixture
def stored(run):
    """The content of deep/config.json, a file of the run's model."""
    sha256, size = blobs.store([b"{}"])
    StoredFile.objects.create(model=run.workload.model, path="deep/config.json", sha256=sha256, size=size)
    return b"{}"


def test_the_holder_alone_gets_the_files_of_its_runs_model_and_sends_files(worker, run, claimed, stored):
    answer = worker.client.get(_file(claimed, "deep/config.json"))
    assert b"".join(answer.streaming_content) == stored
    by_digest = f"/api/v1/worker/models/{run.workload.model.digest}"
    others = [_file(claimed, path) for path in ("other", "config.json", "../config.json")]
    for address in (*others, by_digest, f"{by_digest}/files/deep/config.json"):
        assert worker.client.get(address).status_code == 404
    sha256 = hashlib.sha256(b"x").hexdigest()
    assert _put(worker.client, {**claimed, "attempt": 2}, sha256, b"x").status_code == 409
    assert not blobs.path_of(sha256).exists()
    assert _put(worker.client, claimed, "../../etc/passwd", b"x").status_code in (404, 422)
    assert _put(worker.client, {**claimed, "run_id": "x"}, sha256, b"x").status_code == 422


@pytest.mark.parametrize(
    ("change", "status"),
    [
        *[(value, 409) for value in ({"attempt": 2}, {"stage": "verify"}, {"run_id": str(uuid.UUID(int=1))})],
        *[(value, 404) for value in ({"run_id": "x"}, {"stage": "nonesuch"}, {"attempt": 0}, {"attempt": -1})],
    ],
)
def test_nobody_gets_files_of_an_attempt_that_is_not_held_or_not_there(worker, claimed, stored, change, status):
    assert worker.client.get(_file(claimed | change, "deep/config.json")).status_code == status


@pytest.mark.parametrize("token", [{}, {CLAIM_HEADER: "wrong"}])
def test_a_worker_acts_only_for_what_it_has_claimed(claimed, run, stored, token):
    """Another worker knows the workers' token and the attempt, but not the answer to the claim."""
    other = JsonClient(headers={"Authorization": f"Bearer {settings.WORKER_TOKEN}", **token})
    calls = {
        "heartbeat": {},
        "progress": {"lines": [{"fraction": 0.5, "message": "half"}]},
        "result": {"result": ADMIT},
    }
    for path, more in calls.items():
        answer = other.post(f"/api/v1/worker/{path}", {**claimed, **more})
        assert answer.status_code == 409, path
    assert other.get(_file(claimed, "deep/config.json")).status_code == 409
    assert _put(other, claimed, hashlib.sha256(b"x").hexdigest(), b"x").status_code == 409
    run.refresh_from_db()
    assert (run.state, run.attempt) == ("running", 1)


@pytest.mark.parametrize("path", ["claim", "heartbeat", "progress", "result"])
def test_a_run_id_that_is_none_gets_a_sentence(worker, path):
    for run_id in ("x", "", "1", "\ud800", "0" * 5000):
        more = {"worker": "w"} if path == "claim" else {}
        answer = worker(path, {"run_id": run_id, "stage": "admit", "attempt": 1, **more})
        assert answer.status_code in (400, 422), run_id
        assert answer.json()["detail"]


def test_a_workload_that_no_longer_validates_ends_its_run_with_a_sentence_although_a_worker_lives(worker, run, key):
    run.workload.document["objectives"] = []
    run.workload.save()
    for _ in range(2):
        assert worker("hello", {"worker": "gpu-0@host", "gpu_classes": ["h200", "cpu"]}).status_code == 204
    assert sorted(Worker.objects.values_list("gpu_class", flat=True)) == ["cpu", "h200"]
    claim = key.model_dump() | {"worker": "gpu-0@host", "gpu_class": ""}
    assert worker("claim", claim).status_code == 409
    run.refresh_from_db()
    assert run.state == "failed"
    assert "cannot read the stored workload: objectives" in run.error["sentence"]


def _file(key: dict[str, Any], path: str) -> str:
    return f"/api/v1/worker/runs/{key['run_id']}/{key['stage']}/{key['attempt']}/files/{path}"


def _put(client: JsonClient, key: dict[str, Any], sha256: str, content: bytes) -> Any:
    return client.put(
        f"/api/v1/worker/artifacts/{sha256}",
        content,
        query_params={name: key[name] for name in ("run_id", "stage", "attempt")},
    )


@pytest.fixture
def outcome(worker, run, key):
    """The result of a stage that this worker holds, with a claim of the next one."""
    assert worker("claim", {**key.model_dump(), "worker": "w"}).status_code == 200
    return {**key.model_dump(), "result": ADMIT, "next_claim_id": str(uuid.uuid4())}


def test_a_result_claims_the_next_stage_without_a_message(worker, run, outcome, django_capture_on_commit_callbacks):
    Run.objects.filter(id=run.id).update(published_at=None)
    with django_capture_on_commit_callbacks(execute=True):
        answer = worker("result", outcome)
    following = StageInput.model_validate_json(answer.content)
    assert (answer.status_code, following.stage, following.attempt) == (200, "baseline", 1)
    run.refresh_from_db()
    assert (run.state, run.stage, run.worker, run.published_at) == ("running", "baseline", "w", None)
    key = {"run_id": str(run.id), "stage": "baseline", "attempt": 1}
    assert worker("heartbeat", key).status_code == 200


def test_a_claim_whose_answer_was_lost_is_asked_for_again(worker, run, outcome):
    answer = worker("result", outcome)
    assert worker("result", outcome).status_code == 409
    key = {name: outcome[name] for name in ("run_id", "stage", "attempt")}
    again = worker("claim", {**key, "worker": "w", "claim_id": outcome["next_claim_id"]})
    assert (again.status_code, again.content) == (200, answer.content)
    assert again.headers[CLAIM_HEADER] == answer.headers[CLAIM_HEADER]


def test_a_run_that_began_earlier_goes_first(worker, run, outcome, engineer):
    older = services.create_run(run.workload, engineer)
    Run.objects.filter(id=older.id).update(started_at=timezone.now() - timedelta(hours=1))
    assert worker("result", outcome).status_code == 204
    run.refresh_from_db()
    assert (run.state, run.stage) == ("queued", "baseline")


@pytest.mark.parametrize("cancelled", [True, False])
def test_the_stages_of_the_ledger_and_of_a_cancelled_run_are_not_claimed(worker, run, outcome, cancelled):
    if cancelled:
        assert state.cancel(run.id, "somebody")
    run.stages.filter(stage__in=["baseline", "profile", "explore", "compose", "verify"]).update(state="done")
    assert worker("result", outcome).status_code == 204
    run.refresh_from_db()
    assert (run.state, run.stage) == (("cancelled", "admit") if cancelled else ("queued", "price"))
