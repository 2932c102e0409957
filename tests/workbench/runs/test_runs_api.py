"""Runs in the public API: started, cancelled, held against a kept run, and the timeline of a traced request."""

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
import sample_runs
from django.test import Client
from django.urls import reverse

from workbench.intake import blobs
from workbench.runs.models import Run, StoredArtifact
from workers.documents.base import Artifact
from workers.documents.profile import LaneSummary, RequestTimeline

Api = Callable[..., Client]


def _post(client: Client, path: str, body: dict[str, Any] | None = None) -> Any:
    return client.post(f"/api/v1{path}", body or {})


def test_a_run_is_started_read_and_listed_on_an_allowed_class(api, engineer, workload):
    client = api(engineer)
    refused = _post(client, "/runs", {"workload": str(workload.id), "gpu_class": "b200"})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "gpu_class")
    assert Run.objects.count() == 0
    made = _post(client, "/runs", {"workload": str(workload.id)})
    assert made.status_code == 201
    read = client.get(f"/api/v1/runs/{made.json()['id']}").json()
    assert (read["state"], read["verdict"], len(read["stages"])) == ("queued", None, 8)
    assert read["waiting"] == "Waiting for a worker of class h200."
    listed = client.get("/api/v1/runs", {"state": "queued", "workload": str(workload.id)}).json()
    assert [item["id"] for item in listed["items"]] == [read["id"]]
    assert client.get("/api/v1/runs", {"state": "done"}).json()["items"] == []


def test_cancel_tells_when_the_run_is_over_and_events_are_followed_from_the_last_one(api, engineer, run):
    client = api(engineer)
    assert client.get(f"/api/v1/runs/{run.id}/plan").status_code == 404
    first = client.get(f"/api/v1/runs/{run.id}/events").json()
    assert [item["kind"] for item in first["items"]] == ["queued"]
    assert _post(client, f"/runs/{run.id}/cancel").json()["state"] == "cancelled"
    again = _post(client, f"/runs/{run.id}/cancel")
    assert (again.status_code, again.json()["detail"]) == (409, "state: the run is over: it is cancelled")
    later = client.get(f"/api/v1/runs/{run.id}/events", {"after": first["last"]}).json()
    assert [item["kind"] for item in later["items"]] == ["cancel_requested", "cancelled"]


def test_results_plan_and_files_of_a_finished_run(api, engineer, organisation):
    run = sample_runs.run(organisation, engineer)
    client = api(engineer)
    result = client.get(f"/api/v1/runs/{run.id}/result").json()
    assert (result["state"], result["verdict"]) == ("done", "met")
    assert result["results"]["verify"]["verdict"] == "met"
    assert client.get(f"/api/v1/runs/{run.id}/plan").json() == result["results"]["verify"]["plan"]
    assert client.get(f"/api/v1/runs/{run.id}/stages/admit").json()["result"]["family"] == "llama"
    page = client.get(f"/api/v1/runs/{run.id}/artifacts/report/report.html")
    assert page["Content-Disposition"].startswith("attachment")


MISSING = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def compared(api, organisation, engineer):
    """`compared(by, count, query)`: the answer for a run `by` times as slow as a kept one in `count` processes."""

    def ask(by=1.0, count=5, query="kept_id={kept}"):
        kept, new = (sample_runs.run(organisation, engineer) for _ in range(2))
        sample_runs.in_processes(kept)
        sample_runs.in_processes(new, count, by)
        answer = api(engineer).get(f"/api/v1/runs/{new.id}/comparison?" + query.format(kept=kept.id, new=new.id))
        return answer.status_code, answer.json()

    return ask


@pytest.mark.parametrize(
    ("by", "percent", "regressed"), [(1.05, 3, True), (1.05, 10, False), (1.0, 3, False), (0.9, 3, False)]
)
def test_a_run_is_worse_beyond_what_was_asked(compared, by, percent, regressed):
    status, result = compared(by, query=f"kept_id={{kept}}&percent={percent}")
    assert (status, result["regressed"]) == (200, regressed)
    ratio = result["ratios"]["TTF64"]
    assert ratio["value"] == pytest.approx(by)
    assert ratio["low"] < by < ratio["high"]
    assert result["sentence"].startswith(f"run {result['run'][:8]} of ")
    worse = "worse" if regressed else "not shown to be worse"
    assert f"is {worse} than run {result['kept'][:8]} of " in result["sentence"]


@pytest.mark.parametrize(
    ("count", "query", "status", "said"),
    [
        (3, "kept_id={kept}", 409, "A regression cannot be judged: it takes 4 to 6 processes of verify, not 3"),
        (5, "kept_id={new}", 422, "kept_id: names the same run; give a kept one"),
        (5, "kept_id={kept}&percent=0", 422, "percent: should be greater than 0, not '0'"),
        (5, "percent=3", 422, "kept_id: is required"),
        (5, "against={kept}", 422, "against: is no parameter here; this address takes kept_id, percent"),
        (5, f"kept_id={MISSING}", 404, "No such run in this organisation."),
        (5, "kept_id={foreign}", 404, "No such run in this organisation."),
    ],
)
def test_what_cannot_be_compared_is_said(compared, count, query, status, said, foreigner):
    foreign = sample_runs.in_processes(sample_runs.run(foreigner.memberships.get().organisation, foreigner))
    response = compared(count=count, query=query.replace("{foreign}", str(foreign.id)))
    assert (response[0], response[1]["detail"].startswith(said)) == (status, True), response


FILE = {"version": 1, "duration_ns": 10, "names": ["gemm"], "lanes": []}
NAMES = {"profile": "timeline.json.gz", "verify": "plan-timeline.json.gz"}


def keep(run, stage):
    """What a worker leaves behind: the file, and its summary in the stage's result."""
    sha256, size = blobs.store([gzip.compress(json.dumps(FILE).encode())])
    file = Artifact(name=NAMES[stage], sha256=sha256, size=size, media_type="application/gzip")
    StoredArtifact.objects.create(run=run, organisation=run.organisation, stage=stage, **file.model_dump())
    lanes = [LaneSummary(name="GPU stream 7", events=1_234, busy_ms=7.5)]
    shown = RequestTimeline(file=file, duration_ms=10.0, lanes=lanes, sentence="Of 9 events the timeline shows 8.")
    row = run.stages.get(stage=stage)
    part = row.result if stage == "profile" else row.result["profile"]
    part["timeline"] = shown.model_dump()
    row.save()


@pytest.mark.parametrize(("stage", "side"), [("profile", "before"), ("verify", "after")])
def test_a_kept_timeline_is_drawn_and_its_lanes_are_a_table_too(browser, engineer, done, stage, side):
    keep(done, stage)
    client = browser(engineer)
    page = client.get(reverse("run-result", args=[done.id])).content.decode()
    address = reverse(f"run-timeline-{side}", args=[done.id])
    assert f'data-timeline="{address}"' in page
    assert '<th scope="row">GPU stream 7</th><td class="number">1,234</td>' in page
    assert all(words in page for words in ('id="one-request"', "75.0 %", "Of 9 events the timeline shows 8."))
    answer = client.get(address)
    assert answer["Content-Encoding"] == "gzip"
    assert json.loads(gzip.decompress(b"".join(answer.streaming_content))) == FILE


def test_without_a_timeline_there_is_no_section_and_no_file(browser, engineer, done):
    client = browser(engineer)
    assert "data-timeline" not in client.get(reverse("run-result", args=[done.id])).content.decode()
    assert client.get(reverse("run-timeline-before", args=[done.id])).status_code == 404
