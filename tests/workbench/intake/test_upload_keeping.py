"""What stays of an upload: two writers at once, a crash, one that is given up, models and blobs that nobody wants."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.core.management import call_command
from django.utils import timezone

from tests.waiting import wait_for
from tests.workbench.intake.conftest import CONFIG, Api, Files, announce, finish, nothing_kept, send, send_files, sha
from tests.workbench.web_process import ROOT, WebProcess
from workbench.accounts.models import User
from workbench.intake import blobs
from workbench.intake.models import Model, Upload, UploadFile
from workbench.intake.services import receiving


def test_giving_up_removes_everything(api: Api, engineer: User, model_files: Files, settings: Any) -> None:
    client = api(engineer)
    upload = announce(client, model_files).json()["id"]
    send(client, upload, 0, model_files["config.json"])
    assert client.delete(f"/api/v1/uploads/{upload}").status_code == 204
    assert nothing_kept(settings)


def test_two_writers_of_one_file(api: Api, engineer: User, model_files: Files) -> None:
    """One of them waits in the middle of its body; the other is told so and loses nothing."""
    from workbench.intake.services.receiving import WrongOffset, append

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


def test_two_finishes_at_once_make_one_model(
    api: Api, engineer: User, model_files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second comes while the first is looking at the files."""
    from workbench.intake.services import uploads

    client = api(engineer)
    upload = announce(client, model_files).json()["id"]
    send_files(client, upload, model_files)
    inspect, second = uploads.inspect, []

    def looking(*arguments: Any, **options: Any) -> Any:
        second.append(finish(client, upload, model_files))
        second.append(send(client, upload, 0, b""))
        return inspect(*arguments, **options)

    monkeypatch.setattr(uploads, "inspect", looking)
    assert finish(client, upload, model_files).status_code == 201
    assert [answer.status_code for answer in second] == [409, 409]
    assert Model.objects.count() == 1


def test_a_crash_while_finishing_can_be_tried_again(
    api: Api, engineer: User, model_files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workbench.intake.services import uploads

    client = api(engineer)
    upload = announce(client, model_files).json()["id"]
    send_files(client, upload, model_files)
    with monkeypatch.context() as broken:
        broken.setattr(uploads, "save_model", lambda *_: 1 / 0)
        assert finish(client, upload, model_files).status_code == 500
    assert finish(client, upload, model_files).status_code == 201


def test_an_upload_whose_finish_was_killed_is_finished_again(tmp_path: Path) -> None:
    """kill -9 in the middle of a finish, by a web process that hangs while it looks at the files."""
    content = json.dumps(CONFIG).encode()
    hangs = tmp_path / "hangs"
    site = WebProcess(tmp_path, PYTHONPATH=f"{ROOT}/tests/workbench/intake/hanging:{ROOT}", HANGS=str(hangs))
    site.start()
    try:
        announced = {"name": "m", "files": [{"path": "config.json", "size": len(content), "sha256": sha(content)}]}
        upload = site.api.post("/uploads", json=announced).json()["id"]
        headers = {"Upload-Offset": "0", "Content-Type": "application/octet-stream"}
        sent = site.api.patch(f"/uploads/{upload}/files/0", content=content, headers=headers)
        assert sent.status_code == 200
        with ThreadPoolExecutor(1) as pool:
            hanging = pool.submit(site.api.post, f"/uploads/{upload}/finish", json={"files": []}, timeout=600)
            wait_for(hangs.exists, 120, "the first finish")
            assert site.api.post(f"/uploads/{upload}/finish", json={"files": []}).status_code == 409
            site.kill()
            assert isinstance(hanging.exception(), httpx.TransportError)
        site.env["PYTHONPATH"] = str(ROOT)
        site.serve()
        assert site.api.get(f"/uploads/{upload}").json()["files"][0]["received"] == len(content)
        assert site.api.post(f"/uploads/{upload}/finish", json={"files": []}).status_code == 201
    finally:
        site.stop()


def test_a_hash_catches_up_with_what_another_process_received(
    api: Api, engineer: User, model_files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes alternately: each has the digest as soon as the last byte is there, so that the end is quick."""
    client, content = api(engineer), model_files["model.safetensors"]
    upload = announce(client, model_files).json()["id"]
    processes = [receiving.RunningHashes(), receiving.RunningHashes()]
    for index, offset in enumerate(range(0, len(content), 1000)):
        monkeypatch.setattr(receiving, "running", processes[index % 2])
        assert send(client, upload, 1, content[offset : offset + 1000], offset).status_code == 200
    assert UploadFile.objects.get(number=1).digest == sha(content)


def test_a_hash_that_is_far_behind_is_ended_by_the_finish(
    api: Api, engineer: User, model_files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "CATCH_UP_BYTES", 10)
    client = api(engineer)
    upload = announce(client, model_files).json()["id"]
    send_files(client, upload, model_files)
    assert UploadFile.objects.get(number=1).digest == ""
    assert finish(client, upload, model_files).status_code == 201


def test_an_interrupted_finish_hashes_no_file_twice(
    api: Api, engineer: User, model_files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workbench.intake.services import uploads

    monkeypatch.setattr(receiving, "CATCH_UP_BYTES", 0)
    client = api(engineer)
    upload = announce(client, model_files).json()["id"]
    send_files(client, upload, model_files)
    with monkeypatch.context() as broken:
        broken.setattr(uploads, "save_model", lambda *_: 1 / 0)
        assert finish(client, upload, model_files).status_code == 500
    assert all(file.digest for file in UploadFile.objects.all())
    monkeypatch.setattr(receiving.RunningHashes, "follow", lambda *_: 1 / 0)
    assert finish(client, upload, model_files).status_code == 201


def test_abandoned_uploads_are_swept(
    api: Api, engineer: User, model_files: Files, settings: Any, upload_model: Any
) -> None:
    client = api(engineer)
    kept = upload_model(client, model_files).json()
    young, old = (announce(client, model_files).json()["id"] for _ in range(2))
    for upload in (young, old):
        send(client, upload, 0, model_files["config.json"])
    Upload.objects.filter(pk=old).update(touched_at=timezone.now() - timedelta(days=2))
    stray = blobs.incoming() / "blob-left"
    stray.write_bytes(b"x")
    os.utime(stray, (0, 0))
    call_command("sweep_uploads")
    assert [str(upload.pk) for upload in Upload.objects.all()] == [young]
    assert [entry.name for entry in blobs.incoming().iterdir()] == [young]
    assert all(blobs.path_of(file["sha256"]).exists() for file in kept["files"])


def test_blobs_that_nothing_refers_to_are_collected(
    api: Api, engineer: User, model_files: Files, upload_model: Any
) -> None:
    kept = upload_model(api(engineer), model_files).json()
    orphan, _ = blobs.store([b"orphan"])
    young, _ = blobs.store([b"young"])
    for sha256 in [orphan, *(file["sha256"] for file in kept["files"])]:
        os.utime(blobs.path_of(sha256), (0, 0))
    call_command("sweep_uploads")
    assert not blobs.path_of(orphan).exists()
    assert blobs.path_of(young).exists()
    assert all(blobs.path_of(file["sha256"]).exists() for file in kept["files"])
