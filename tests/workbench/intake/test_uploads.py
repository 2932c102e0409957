"""Uploads by the API: resumable, checked, and gone without a trace when they are refused."""

import json
import resource
from typing import Any

import pytest

from tests.workbench.intake.conftest import CONFIG, Api, Files, announce, finish, nothing_kept, send, send_files
from workbench.accounts.models import User
from workbench.api.quota import used_bytes
from workbench.intake import blobs
from workbench.intake.models import Upload


def test_an_upload_becomes_a_model_with_blobs_by_hash(
    api: Api, engineer: User, model_files: Files, upload_model: Any
) -> None:
    answer = upload_model(api(engineer), model_files)
    assert answer.status_code == 201
    document = answer.json()
    assert (document["kind"], document["source"], document["has_tokenizer"]) == ("decoder", "upload", True)
    for file in document["files"]:
        assert blobs.path_of(file["sha256"]).read_bytes() == model_files[file["path"]]
    assert not Upload.objects.open().exists()
    assert not list(blobs.incoming().iterdir())
    assert api(engineer).get(f"/api/v1/models/{document['id']}").json() == document


def test_the_same_model_twice_is_one_model(api: Api, engineer: User, model_files: Files, upload_model: Any) -> None:
    first, second = (upload_model(api(engineer), model_files).json() for _ in range(2))
    assert first["id"] == second["id"]
    assert not Upload.objects.open().exists()


def test_a_broken_upload_goes_on_where_it_stopped(api: Api, engineer: User, model_files: Files) -> None:
    client = api(engineer)
    upload = announce(client, model_files).json()["id"]
    weights = model_files["model.safetensors"]
    assert send(client, upload, 1, weights[:1000]).headers["Upload-Offset"] == "1000"
    wrong = send(client, upload, 1, weights[2000:3000], offset=2000)
    assert wrong.status_code == 409
    assert wrong.headers["Upload-Offset"] == "1000"
    head = client.head(f"/api/v1/uploads/{upload}/files/1")
    assert head.headers["Upload-Offset"] == "1000"
    assert client.get(f"/api/v1/uploads/{upload}").json()["files"][1]["received"] == 1000
    assert send(client, upload, 1, weights[1000:], offset=1000).status_code == 200
    send(client, upload, 0, model_files["config.json"])
    unfinished = finish(client, upload, model_files)
    assert unfinished.status_code == 409
    assert "tokenizer.json: 0 of 2 bytes" in unfinished.json()["detail"]
    send(client, upload, 2, model_files["tokenizer.json"])
    assert finish(client, upload, model_files).status_code == 201


def test_a_connection_that_breaks_keeps_what_came(engineer: User, api: Api, model_files: Files) -> None:
    from django.http.request import UnreadablePostError

    from workbench.intake.services.receiving import append

    upload = Upload.objects.get(pk=announce(api(engineer), model_files).json()["id"])

    class Broken:
        left = [b"x" * 500]

        def read(self, size: int) -> bytes:
            if not self.left:
                raise UnreadablePostError
            return self.left.pop()

    assert append(upload, 1, 0, Broken(), 1000).received == 500


def test_a_wrong_hash_is_refused(api: Api, engineer: User, model_files: Files, settings: Any) -> None:
    client = api(engineer)
    upload = announce(client, model_files).json()["id"]
    send_files(client, upload, model_files)
    answer = finish(client, upload, model_files | {"tokenizer.json": b"other"})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["file"] == "tokenizer.json"
    assert answer.json()["errors"][0]["field"] == "sha256"
    assert nothing_kept(settings)


def test_a_hash_is_required(api: Api, engineer: User, model_files: Files) -> None:
    client = api(engineer)
    only_config = {"config.json": model_files["config.json"]}
    upload = announce(client, only_config).json()["id"]
    send(client, upload, 0, only_config["config.json"])
    assert finish(client, upload, {}).json()["detail"] == "config.json: sha256: is required"
    assert finish(client, upload, only_config).status_code == 201


def _nested(depth: int) -> Any:
    document: Any = {}
    for _ in range(depth):
        document = {"a": document}
    return document


def _bad(change: dict[str, Any]) -> bytes:
    return json.dumps(CONFIG | change).encode()


BAD: dict[str, tuple[dict[str, bytes], str]] = {
    "broken JSON": ({"config.json": b'{"model_type": }'}, "config.json: line 1, column 16: broken JSON"),
    "pickle": ({"model.safetensors": b"\x80\x04N."}, "model.safetensors: the content is a pickle"),
    "nested": (
        {"config.json": _bad({"deep": _nested(900)})},
        "config.json: the JSON is nested deeper than 100 levels",
    ),
    "name of 395 bytes": ({"ж" * 195 + ".json": b"{}"}, "path: a path has at most 255 bytes in UTF-8"),
    "climbs": ({"../evil.json": b"{}"}, "../evil.json: path: the path climbs out"),
    "two": (
        {"added_tokens.json": b"{", "merges.txt": b"PK\x03\x04"},
        "added_tokens.json: line 1, column 2: broken JSON (Expecting property name enclosed in double quotes)"
        " (and 1 more)",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_models_are_refused_with_a_sentence_and_leave_nothing(
    api: Api, engineer: User, model_files: Files, upload_model: Any, settings: Any, case: str
) -> None:
    change, sentence = BAD[case]
    answer = upload_model(api(engineer), model_files | change)
    assert answer.status_code == 422
    assert sentence in answer.json()["detail"]
    assert answer.json()["errors"][0]["file"]
    assert nothing_kept(settings)


def test_without_a_configuration(api: Api, engineer: User) -> None:
    answer = announce(api(engineer), {"model.safetensors": b"x"})
    assert answer.json()["detail"].startswith("config.json: the file is missing")


def test_a_name_is_neither_spaces_alone_nor_has_control_characters(
    api: Api, engineer: User, model_files: Files
) -> None:
    client = api(engineer)
    assert announce(client, model_files, name="a\x1bb").json()["detail"] == "name: control characters are not allowed"
    assert announce(client, model_files, name=" \t").json()["detail"] == "name: spaces alone are not enough"
    assert announce(client, model_files, name=" tiny ").json()["name"] == "tiny"


def test_a_whole_folder_is_taken_from_inside(api: Api, engineer: User, model_files: Files, upload_model: Any) -> None:
    inside = {f"my-model/{path}": content for path, content in model_files.items()}
    upload = announce(api(engineer), inside).json()
    assert [file["path"] for file in upload["files"]] == list(model_files)


def test_quotas(api: Api, engineer: User, model_files: Files, settings: Any) -> None:
    client = api(engineer)
    kept = used_bytes(engineer.memberships.get().organisation)
    settings.ORGANISATION_QUOTA_BYTES = kept + sum(map(len, model_files.values())) + 10
    assert announce(client, model_files).status_code == 201
    over = announce(client, model_files)
    assert over.status_code == 413
    assert "10 bytes left of the organisation's quota" in over.json()["detail"]
    settings.MODEL_MAX_BYTES = 5
    assert "a model may have" in announce(client, model_files).json()["detail"]
    settings.MODEL_MAX_BYTES = 80 * 2**30
    sizes = [{"path": "config.json", "size": 2}, {"path": "model.safetensors", "size": 300 * 2**30}]
    huge = client.post("/api/v1/uploads", {"name": "huge", "files": sizes}, content_type="application/json")
    assert huge.json()["detail"] == (
        "files: 322,122,547,202 bytes (300.0 GiB) are over the 85,899,345,920 bytes (80.0 GiB) that a model may have"
    )
    assert Upload.objects.count() == 1


def test_more_bytes_than_announced(api: Api, engineer: User, model_files: Files, settings: Any) -> None:
    client = api(engineer)
    upload = announce(client, model_files).json()["id"]
    assert send(client, upload, 2, b"123").status_code == 413
    settings.UPLOAD_CHUNK_BYTES = 10
    assert "a chunk has at most 10 bytes" in send(client, upload, 1, b"x" * 11).json()["detail"]


@pytest.mark.parametrize("offset", ["", "-1", "x", "1.5", "9" * 30])
def test_offsets_that_are_none(api: Api, engineer: User, model_files: Files, offset: str) -> None:
    client = api(engineer)
    upload = announce(client, model_files).json()["id"]
    answer = client.patch(
        f"/api/v1/uploads/{upload}/files/0", b"x", "application/octet-stream", headers={"Upload-Offset": offset}
    )
    assert answer.status_code == 422


def test_a_large_body_is_streamed(api: Api, engineer: User) -> None:
    from workbench.intake.services.receiving import append

    size = 200 * 2**20
    upload = Upload.objects.get(
        pk=api(engineer)
        .post(
            "/api/v1/uploads",
            {"name": "big", "files": [{"path": "config.json", "size": 1}, {"path": "model.safetensors", "size": size}]},
            content_type="application/json",
        )
        .json()["id"]
    )

    class Endless:
        def read(self, wanted: int) -> bytes:
            assert wanted <= blobs.CHUNK
            return bytes(wanted)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert append(upload, 1, 0, Endless(), size).received == size
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024
