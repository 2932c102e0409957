"""A model's config.json is checked when it has come, before the weights or after them."""

import json
from pathlib import Path
from typing import Any

import pytest

from kernels.model_files import ModelRefused, inspect
from tests.workbench.intake.conftest import (
    CONFIG,
    Files,
    announce,
    finish,
    nothing_kept,
    outcome,
    post_finish,
    send,
    sha,
)
from workbench.intake.models import Recording, Upload
from workbench.intake.services import checking

REFUSED: dict[str, bytes] = {
    "no model type": json.dumps({key: CONFIG[key] for key in CONFIG.keys() - {"model_type"}}).encode(),
    "an unknown class": json.dumps(CONFIG | {"architectures": ["NoneSuchForCausalLM"]}).encode(),
    "remote code": json.dumps(CONFIG | {"model_type": "nonesuch", "auto_map": {"AutoModel": "code.Model"}}).encode(),
    "a pickle": b"\x80\x04N.",
}
CALLS = b'{"prompt_tokens": 8, "output_tokens": 4}\n'


def _sentence_at_the_end(folder: Path, files: Files) -> str:
    """What the check of the whole directory says."""
    for path, content in files.items():
        (folder / path).write_bytes(content)
    with pytest.raises(ModelRefused) as caught:
        inspect(folder)
    return str(caught.value)


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_one_is_refused_before_the_weights_come(api, engineer, model_files, settings, tmp_path, case):
    files = model_files | {"config.json": REFUSED[case]}
    client = api(engineer)
    upload = announce(client, files).json()["id"]
    assert send(client, upload, 0, files["config.json"]).status_code == 200
    checking.check_waiting()
    answer = send(client, upload, 1, files["model.safetensors"])
    assert (answer.status_code, answer.headers["Content-Type"]) == (422, "application/problem+json")
    assert answer.json()["detail"] == _sentence_at_the_end(tmp_path, files)
    assert [error["file"] for error in answer.json()["errors"]] == ["config.json"]
    assert finish(client, upload, files).json() == answer.json()
    assert client.get(f"/api/v1/uploads/{upload}").json()["state"] == "refused"
    assert nothing_kept(settings)
    if case == "an unknown class":  # modules of sentences stand in its place
        upload = announce(client, files | {"modules.json": b"[]"}).json()["id"]
        assert send(client, upload, 0, files["config.json"]).status_code == 200
        checking.check_waiting()
        assert send(client, upload, 1, files["model.safetensors"]).status_code == 200


def test_a_bad_one_is_refused_also_after_the_weights(api, engineer, model_files, settings):
    bad = REFUSED["remote code"]
    client = api(engineer)
    upload = announce(client, model_files | {"config.json": bad}).json()["id"]
    assert send(client, upload, 1, model_files["model.safetensors"]).status_code == 200
    assert send(client, upload, 0, bad[:-1]).status_code == 200
    checking.check_waiting()
    assert send(client, upload, 0, bad[-1:], offset=len(bad) - 1).status_code == 200
    checking.check_waiting()
    assert outcome(client, upload).json()["detail"].startswith("config.json: auto_map: remote code is not run")
    assert nothing_kept(settings)


def test_a_finish_that_comes_while_it_is_checked_gives_the_same_sentence(api, engineer, monkeypatch):
    client, files = api(engineer), {"config.json": REFUSED["remote code"]}
    upload = announce(client, files).json()["id"]
    assert send(client, upload, 0, files["config.json"]).status_code == 200
    facts, finished = checking._facts, []

    def slow(*arguments: Any) -> Any:
        if not finished:
            finished.append(post_finish(client, upload, files))
        return facts(*arguments)

    monkeypatch.setattr(checking, "_facts", slow)
    checking.check_waiting()
    assert finished[0].json()["state"] == "checking"
    assert outcome(client, upload).json()["detail"].startswith("config.json: auto_map: remote code is not run")


@pytest.mark.parametrize(
    ("size", "reason"),
    [(0, "the file is empty"), (2**22 + 1, "the file has 4,194,305 bytes, more than the 4,194,304 allowed")],
)
def test_a_size_that_none_has_is_refused_when_it_is_announced(api, engineer, size, reason):
    files = [{"path": "tiny/model.safetensors", "size": 9}, {"path": "tiny/config.json", "size": size}]
    answer = api(engineer).post("/api/v1/uploads", {"name": "m", "files": files})
    assert (answer.status_code, answer.json()["detail"]) == (422, f"config.json: {reason}")
    assert not Upload.objects.exists()
    below = {"config.json": b"{}", "onnx/config.json": b"x" * size}
    upload = announce(api(engineer), below).json()
    assert ([file["path"] for file in upload["files"]], upload["left_out"]) == (["config.json"], ["onnx/"])


def test_a_recording_may_have_that_name(api, engineer):
    client = api(engineer)
    announced = {"name": "calls", "holds": "recording", "files": [{"path": "config.json", "size": len(CALLS)}]}
    upload = client.post("/api/v1/uploads", announced).json()["id"]
    assert send(client, upload, 0, CALLS).status_code == 200
    assert finish(client, upload, {"config.json": CALLS}).status_code == 201
    assert Recording.objects.get().sha256 == sha(CALLS)
