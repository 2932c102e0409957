"""A small model in memory, and an upload of it by the API."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from tests.kernels import model_folders
from workbench.intake.models import Model, StoredFile, Upload, UploadFile
from workbench.intake.services import checking

Api = Callable[..., Client]
Files = dict[str, bytes]
CONFIG = model_folders.LLAMA | {"max_position_embeddings": 512}
MODEL_FILES: Files = {
    "config.json": json.dumps(CONFIG).encode(),
    "model.safetensors": model_folders.safetensors(model_folders.weights_of(CONFIG)),
    "tokenizer.json": b"{}",
}


def nothing_kept(settings: Any) -> bool:
    rows = [Model.objects, StoredFile.objects, Upload.objects.open(), UploadFile.objects]
    files = [path for path in Path(settings.BLOBS).rglob("*") if path.is_file()]
    return not any(row.exists() for row in rows) and not files


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def model_files() -> Files:
    """A whole model: configuration, weights, tokenizer."""
    return dict(MODEL_FILES)


def announce(client: Client, files: Files, name: str = "tiny", holds: str = "model") -> Any:
    described = [{"path": path, "size": len(content)} for path, content in files.items()]
    return client.post("/api/v1/uploads", {"name": name, "holds": holds, "files": described})


def send(client: Client, upload: str, number: int, content: bytes, offset: int = 0) -> Any:
    return client.patch(
        f"/api/v1/uploads/{upload}/files/{number}",
        content,
        headers={"Upload-Offset": str(offset)},
    )


def send_files(client: Client, upload: str, files: Files) -> None:
    """Every file that has content, whole."""
    for number, content in enumerate(files.values()):
        if content:
            assert send(client, upload, number, content).status_code == 200


@dataclass
class Outcome:
    """What came of a check, as an answer: 201 with the model or the recording, or the problem."""

    document: dict[str, Any]
    status_code: int = 201

    def json(self) -> dict[str, Any]:
        return self.document

    @property
    def content(self) -> bytes:
        return json.dumps(self.document).encode()


def post_finish(client: Client, upload: str, files: Files) -> Any:
    body = {"files": [{"path": path, "sha256": sha(content)} for path, content in files.items()]}
    return client.post(f"/api/v1/uploads/{upload}/finish", body)


def finish(client: Client, upload: str, files: Files) -> Any:
    """Finish the upload, have it checked as the worker does, and ask what came of it."""
    answer = post_finish(client, upload, files)
    if answer.status_code != 202:
        return answer
    assert answer.json()["state"] == "checking"
    checking.check_waiting()
    return outcome(client, upload)


def outcome(client: Client, upload: str) -> Outcome:
    """What came of the upload's check."""
    result = client.get(f"/api/v1/uploads/{upload}").json()
    if result["problem"]:
        return Outcome(result["problem"], result["problem"]["status"])
    assert result["state"] == "finished", result
    return Outcome(result["model"] or result["recording"])


def upload_model(client: Client, files: Files, holds: str = "model") -> Any:
    """The last answer of a whole upload, or the first that refuses it."""
    answer = announce(client, files, holds=holds)
    if answer.status_code != 201:
        return answer
    upload = answer.json()["id"]
    for number, content in enumerate(files.values()):
        if content and (answer := send(client, upload, number, content)).status_code != 200:
            return answer
    return finish(client, upload, files)
