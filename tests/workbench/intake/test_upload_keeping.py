"""What stays of an upload: two writers at once, a crash, one that is given up, models and blobs that nobody wants."""

import os
import sys
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.workbench.intake.conftest import (
    Files,
    announce,
    finish,
    nothing_kept,
    outcome,
    post_finish,
    send,
    send_files,
    sha,
    upload_model,
)
from workbench.intake import blobs, tasks
from workbench.intake.models import Model, Upload, UploadFile
from workbench.intake.services import checking, receiving, uploads
from workbench.intake.services.receiving import WrongOffset, append
from workbench.runs.tasks import sweep_runs

PROGRAM = checking._run_check
"""Its own, as of a site."""


def test_two_writers_of_one_file(api, engineer, model_files):
    """One of them waits in the middle of its body; the other is told so and loses nothing."""

    client = api(engineer)
    upload = Upload.objects.get(pk=announce(client, model_files).json()["id"])
    content = model_files["model.safetensors"]
    second: list[Any] = []

    class Slow:
        position = 0

        def read(self, size: int) -> bytes:
            if not second:
                with pytest.raises(WrongOffset) as caught:
                    append(upload, 1, 0, Slow(), len(content))
                second.append(caught.value)
            chunk = content[self.position : self.position + size]
            self.position += len(chunk)
            return chunk

    assert append(upload, 1, 0, Slow(), len(content)).received == len(content)
    assert second[0].offset == 0
    assert "another request is writing" in second[0].detail
    assert UploadFile.objects.get(number=1).digest == sha(content)


def _ready(client: Any, files: Files) -> str:
    """An upload that waits for its check."""
    upload: str = announce(client, files).json()["id"]
    send_files(client, upload, files)
    assert post_finish(client, upload, files).status_code == 202
    return upload


def test_an_upload_that_is_checked_takes_no_bytes_and_is_checked_once(api, engineer, model_files, monkeypatch):
    client = api(engineer)
    upload = _ready(client, model_files)
    keep, second = uploads.keep_model, []

    def keeping(*arguments: Any) -> Any:
        second.append(post_finish(client, upload, {}))
        second.append(send(client, upload, 0, b""))
        checking.check_waiting()
        return keep(*arguments)

    monkeypatch.setattr(uploads, "keep_model", keeping)
    checking.check_waiting()
    assert [answer.status_code for answer in second] == [202, 409]
    assert outcome(client, upload).json()["id"] == str(Model.objects.get().pk)
    again = post_finish(client, upload, {})
    assert (again.status_code, again.json()["state"]) == (202, "finished")


def test_an_upload_that_is_given_up_leaves_nothing(api, engineer, model_files, settings, monkeypatch):
    client = api(engineer)
    upload = announce(client, model_files).json()["id"]
    send(client, upload, 0, model_files["config.json"])
    assert client.delete(f"/api/v1/uploads/{upload}").status_code == 204
    assert nothing_kept(settings)
    upload = _ready(client, model_files)
    check = uploads.check_hash

    def checked(*arguments: Any) -> None:
        check(*arguments)
        client.delete(f"/api/v1/uploads/{upload}")

    monkeypatch.setattr(uploads, "check_hash", checked)
    checking.check_waiting()
    assert nothing_kept(settings)


def test_a_check_that_fails_says_so_and_can_be_tried_again(api, engineer, model_files, monkeypatch):
    """What was hashed is not hashed again."""
    monkeypatch.setattr(receiving, "CATCH_UP_BYTES", 0)
    client = api(engineer)
    upload = _ready(client, model_files)
    with monkeypatch.context() as broken:
        broken.setattr(uploads, "save_model", lambda *_: 1 / 0)
        checking.check_waiting()
    result = client.get(f"/api/v1/uploads/{upload}").json()
    assert (result["state"], result["problem"]["status"]) == ("receiving", 500)
    assert all(file.digest for file in UploadFile.objects.all())
    monkeypatch.setattr(receiving.RunningHashes, "follow", lambda *_: 1 / 0)
    assert finish(client, upload, model_files).status_code == 201


def test_another_hash_than_was_announced_is_refused_and_the_upload_stays(api, engineer, model_files):
    client, config = api(engineer), model_files["config.json"]
    announced = {"name": "m", "files": [{"path": "config.json", "size": len(config), "sha256": sha(config)}]}
    upload = client.post("/api/v1/uploads", announced).json()["id"]
    assert send(client, upload, 0, config).status_code == 200
    refused = finish(client, upload, {"config.json": b"other"})
    text = f"config.json: sha256: was stated as {sha(config)} before, not {sha(b'other')}"
    assert (refused.status_code, refused.json()["detail"]) == (422, text)
    assert finish(client, upload, {"config.json": config}).status_code == 201


@pytest.mark.parametrize(
    ("ends_by", "state", "sentence"),
    [
        ("XCPU", "refused", "files: checking them takes more than 60 seconds of processor time"),
        ("KILL", "receiving", "files: the machine is too busy to check them; finish the upload again"),
    ],
)
def test_a_check_that_takes_too_long_is_refused(
    api, engineer, model_files, monkeypatch, tmp_path, ends_by, state, sentence
):
    ending = tmp_path / "python"
    ending.write_text(f"#!/bin/sh\nkill -{ends_by} $$\n")
    ending.chmod(0o700)
    monkeypatch.setattr(checking, "_run_check", PROGRAM)
    client = api(engineer)
    upload = _ready(client, model_files)
    with monkeypatch.context() as broken:
        broken.setattr(sys, "executable", str(ending))
        checking.check_waiting()
    result = client.get(f"/api/v1/uploads/{upload}").json()
    assert (result["state"], result["problem"]["detail"]) == (state, sentence)
    assert finish(client, upload, model_files).status_code == (201 if state == "receiving" else 422)


def test_organisations_take_turns(api, engineer, foreigner, model_files, monkeypatch):
    clients = [api(engineer), api(engineer), api(foreigner)]
    ready = [_ready(client, model_files) for client in clients]
    order: list[str] = []
    check = checking._check

    def noting(upload: Upload) -> None:
        order.append(str(upload.pk))
        check(upload)

    monkeypatch.setattr(checking, "_check", noting)
    checking.check_waiting()
    assert order == [ready[0], ready[2], ready[1]]


def test_a_hash_catches_up_with_what_another_process_received(api, engineer, model_files, monkeypatch):
    """Two processes alternately: each has the digest as soon as the last byte is there, so that the end is quick."""
    client, content = api(engineer), model_files["model.safetensors"]
    upload = announce(client, model_files).json()["id"]
    processes = [receiving.RunningHashes(), receiving.RunningHashes()]
    step = len(content) // 5
    for index, offset in enumerate(range(0, len(content), step)):
        monkeypatch.setattr(receiving, "running", processes[index % 2])
        assert send(client, upload, 1, content[offset : offset + step], offset).status_code == 200
    assert UploadFile.objects.get(number=1).digest == sha(content)


def test_a_hash_that_is_far_behind_is_ended_by_the_finish(api, engineer, model_files, monkeypatch):
    monkeypatch.setattr(receiving, "CATCH_UP_BYTES", 10)
    client = api(engineer)
    upload = announce(client, model_files).json()["id"]
    send_files(client, upload, model_files)
    assert UploadFile.objects.get(number=1).digest == ""
    assert finish(client, upload, model_files).status_code == 201


def test_abandoned_uploads_and_blobs_without_a_reference_are_swept(api, engineer, model_files, settings):
    client = api(engineer)
    kept = upload_model(client, model_files).json()
    young, old = (announce(client, model_files).json()["id"] for _ in range(2))
    for upload in (young, old):
        send(client, upload, 0, model_files["config.json"])
    waits = _ready(client, model_files | {"README.md": b"another model"})
    Upload.objects.exclude(pk=young).update(touched_at=timezone.now() - timedelta(days=2))
    stray = blobs.incoming() / "blob-left"
    stray.write_bytes(b"x")
    os.utime(stray, (0, 0))
    orphan, new = blobs.store([b"orphan"])[0], blobs.store([b"new"])[0]
    for sha256 in (orphan, *(file["sha256"] for file in kept["files"])):
        os.utime(blobs.path_of(sha256), (0, 0))
    tasks.sweep_uploads()
    sweep_runs()
    assert (blobs.path_of(orphan).exists(), blobs.path_of(new).exists()) == (False, True)
    assert {str(upload.pk) for upload in Upload.objects.all()} == {young, waits}
    assert {entry.name for entry in blobs.incoming().iterdir()} == {young, waits}
    assert all(blobs.path_of(file["sha256"]).exists() for file in kept["files"])
