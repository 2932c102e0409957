"""Recorded traffic: handed in once, checked line by line, named by workloads, and gone with the last of them."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from tests.workbench.intake.conftest import announce, finish, nothing_kept, send, sha, upload_model
from tests.workbench.intake.workload_documents import GOOD, fields, post, shown_errors
from workbench.intake import blobs
from workbench.intake.models import Recording, Upload, Workload
from workbench.intake.services import recordings
from workbench.runs import garbage, services
from workbench.runs.models import Run
from workers.documents.worker_api import StageKey
from workers.loadtest import recording as files

CALLS = b"arrival_s,prompt_tokens,output_tokens\n" + b"".join(b"%d,100,64\n" % at for at in range(61))
RECORDED = {"kind": "recorded"}
AS_IT_CAME = {"arrivals": RECORDED, "prompt_lengths": RECORDED, "output_lengths": RECORDED}


def hand_in(client: Client, content: bytes = CALLS, name: str = "calls.csv") -> Any:
    """The last answer of a whole upload."""
    return upload_model(client, {name: content}, holds="recording")


def replayed(**traffic: Any) -> dict[str, Any]:
    """A workload that replays CALLS."""
    return GOOD | {"load": {"most_users": 8}, "traffic": AS_IT_CAME | {"recording": sha(CALLS)} | traffic}


def test_a_recording_is_handed_in_named_by_a_workload_and_told_to_every_stage(api, engineer, foreigner):
    client = api(engineer)
    answer = hand_in(client)
    assert answer.status_code == 201
    text = answer.json()
    facts = {"requests": 61, "seconds": 60, "longest_prompt": 100, "longest_output": 64}
    assert text | facts | {"name": "calls.csv", "sha256": sha(CALLS), "size": len(CALLS)} == text
    assert blobs.path_of(sha(CALLS)).read_bytes() == CALLS
    assert not Upload.objects.open().exists()
    workload = post(client, replayed())
    assert workload.status_code == 201, workload.content
    assert workload.json()["document"]["traffic"]["recording"] == sha(CALLS)
    assert Workload.objects.get().recording == Recording.objects.get()
    started = {"workload": workload.json()["id"]}
    run = Run.objects.get(pk=client.post("/api/v1/runs", started).json()["id"])
    for stage in ("admit", "load"):
        key = StageKey(run_id=str(run.pk), stage=stage, attempt=1)
        assert services.stage_input(run, key).recording == Recording.objects.get().document
    assert post(api(foreigner), replayed()).status_code == 422
    assert api(foreigner).get("/api/v1/recordings").json()["items"] == []

    again = hand_in(client, name="other.csv")
    assert (again.status_code, again.json()["name"]) == (201, "calls.csv"), "the same content is kept once"
    assert [row["sha256"] for row in client.get("/api/v1/recordings").json()["items"]] == [sha(CALLS)]


def test_the_form_takes_it_and_says_what_is_wrong_beside_its_inputs(api, browser, engineer):
    hand_in(api(engineer))
    kinds = {f"traffic.{name}.kind": "recorded" for name in AS_IT_CAME}
    sent = fields(GOOD) | kinds | {"traffic.recording": sha(CALLS), "traffic.arrivals.speed": "-2"}
    page = browser(engineer).post("/workloads/new/", sent | {"load.most_users": "8"}).content.decode()
    assert shown_errors(page) == ["should be greater than or equal to 0.000000001, not -2"]
    assert f'<option value="{sha(CALLS)}" selected>calls.csv: 61 requests over 60 s</option>' in page
    good = sent | {"traffic.arrivals.speed": "4"}
    page = browser(engineer).post("/workloads/new/", good | {"load.most_users": ""}).content.decode()
    text = "a run without load measures equal requests; for this traffic say how many users there are at most"
    assert shown_errors(page) == [f"{text} (load.most_users)"]
    seen = browser(engineer).post("/workloads/new/check/", good | {"load.most_users": "8"}).content.decode()
    assert "calls.csv: 61 requests over 60 s." in seen
    assert browser(engineer).post("/workloads/new/", good | {"load.most_users": "8"}).status_code == 302
    traffic = Workload.objects.get().sla.traffic
    assert (traffic.speed, traffic.recording, traffic.longest_output) == (4, sha(CALLS), None)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"arrival_s,prompt_tokens,output_tokens\n0,1,1\n1,many,1\n", "line 3: prompt_tokens is no number: 'many'"),
        (b"", "holds no request"),
    ],
)
def test_a_broken_line_is_named_by_its_number_and_nothing_is_kept(api, engineer, settings, content, reason):
    refused = hand_in(api(engineer), content)
    assert refused.status_code == 422
    assert refused.json()["detail"].startswith(f"calls.csv: {reason}")
    assert str(settings.BLOBS) not in refused.content.decode()
    assert nothing_kept(settings)
    assert not Recording.objects.exists()


def test_one_that_is_too_large_or_has_another_hash_is_refused(api, engineer, settings):
    client = api(engineer)
    described = {"path": "calls.csv", "size": files.MAX_BYTES + 1}
    over = client.post("/api/v1/uploads", {"holds": "recording", "name": "calls", "files": [described]})
    assert over.status_code == 413
    assert "134,217,729 bytes are over the 134,217,728 that a recording may have" in over.json()["detail"]
    assert hand_in(client, name="a/b.csv").status_code == 422
    upload = announce(client, {"calls.csv": CALLS}, holds="recording").json()["id"]
    assert send(client, upload, 0, CALLS).status_code == 200
    refused = finish(client, upload, {"calls.csv": b"other"})
    assert refused.json()["detail"].startswith("calls.csv: sha256: the content that came has")
    assert nothing_kept(settings)
    settings.ORGANISATION_QUOTA_BYTES = len(CALLS) - 1
    assert hand_in(client).status_code == 413


@pytest.mark.parametrize(
    ("changed", "field", "reason"),
    [
        ({"traffic": {"recording": "0" * 64}}, "traffic.recording", "no recording of your organisation has this"),
        ({"traffic": {"recording": "calls.csv"}}, "traffic.recording", "a run names a recording by its SHA-256"),
        ({"traffic": {"arrivals": RECORDED | {"speed": 40}}}, "traffic.arrivals.speed", "40 times as fast is 1.5 s"),
        ({"objectives": [{"metric": "ttf_n", "n": 65, "limit": 9}]}, "objectives[0].n", "token 65 is promised, but"),
        ({"load": None}, "traffic.prompt_lengths", "a run without load measures equal requests"),
    ],
)
def test_a_workload_that_cannot_replay_it_is_refused(api, engineer, changed, field, reason):
    client = api(engineer)
    assert hand_in(client).status_code == 201
    document = replayed(**changed.pop("traffic", {})) | changed
    error = post(client, document).json()["errors"][0]
    assert error["field"] == field
    assert reason in error["reason"]
    assert not Workload.objects.exists()


def test_one_without_arrivals_and_one_that_is_too_long_for_the_model_are_refused(api, engineer):
    client = api(engineer)
    content = b"prompt_tokens,output_tokens\n131072,64\n9,64\n"
    assert hand_in(client, content).status_code == 201
    errors = post(client, replayed(recording=sha(content))).json()["errors"]
    assert [error["field"] for error in errors] == ["traffic.arrivals.speed", "traffic.recording"]
    assert errors[0]["reason"] == "calls.csv has no arrivals to replay: its arrival_s are missing or all the same"
    assert "131,072 and the longest answer 64 tokens" in errors[1]["reason"]


def test_how_a_published_trace_was_read_is_told_everywhere(api, browser, engineer):
    client = api(engineer)
    content = b"Timestamp,Model,Request tokens,Response tokens\n5,GPT-4,100,64\n6,GPT-4,100,0\n65,GPT-4,100,64\n"
    notes = hand_in(client, content).json()["notes"]
    assert notes[0].startswith("Arrivals are the seconds in Timestamp.")
    assert notes[1] == "1 request of 0 tokens left out."
    sent = fields(GOOD) | {f"traffic.{name}.kind": "recorded" for name in AS_IT_CAME}
    sent |= {"traffic.recording": sha(content), "load.most_users": "8"}
    page = browser(engineer).post("/workloads/new/check/", sent).content.decode()
    assert all(note in page for note in ("calls.csv: 2 requests over 60 s.", *notes))


def test_it_goes_with_the_last_workload_that_names_it(api, browser, engineer):
    client = api(engineer)
    hand_in(client)
    first, second = (post(client, replayed()).json()["id"] for _ in range(2))
    garbage.collect_blobs()
    assert client.get(f"/api/v1/workloads/{first}/dependents").json()["recordings"] == 0
    assert client.delete(f"/api/v1/workloads/{first}").status_code == 204
    assert blobs.path_of(sha(CALLS)).exists()
    assert client.get(f"/api/v1/workloads/{second}/dependents").json()["recordings"] == 1
    page = browser(engineer).get(f"/workloads/{second}/delete/").content.decode()
    assert "<dt>Recordings of traffic</dt><dd>1</dd>" in page
    assert client.delete(f"/api/v1/workloads/{second}").status_code == 204
    assert not Recording.objects.exists()
    assert not Path(blobs.path_of(sha(CALLS))).exists()


def test_one_that_no_workload_names_goes_after_a_day(api, engineer):
    hand_in(api(engineer))
    assert recordings.sweep() == 0
    Recording.objects.update(touched_at=timezone.now() - timedelta(days=2))
    assert post(api(engineer), replayed()).status_code == 201
    assert recordings.sweep() == 0
    Workload.objects.all().delete()
    assert recordings.sweep() == 1
    assert not Recording.objects.exists()
