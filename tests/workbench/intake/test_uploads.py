"""Uploads by the API: resumable, checked, and gone without a trace when they are refused."""

import resource

import pytest
from django.http.request import UnreadablePostError

from tests.workbench.intake.conftest import announce, finish, nothing_kept, send, send_files, upload_model
from workbench.api.quota import used_bytes
from workbench.intake import blobs
from workbench.intake.models import Upload
from workbench.intake.services.receiving import append


def test_an_upload_becomes_one_model_with_blobs_by_hash(api, engineer, model_files):
    answer = upload_model(api(engineer), model_files)
    assert answer.status_code == 201
    document = answer.json()
    assert (document["kind"], document["source"], document["has_tokenizer"]) == ("decoder", "upload", True)
    for file in document["files"]:
        assert blobs.path_of(file["sha256"]).read_bytes() == model_files[file["path"]]
    assert api(engineer).get(f"/api/v1/models/{document['id']}").json() == document
    assert upload_model(api(engineer), model_files).json()["id"] == document["id"]
    assert not Upload.objects.open().exists()
    assert not list(blobs.incoming().iterdir())


def test_a_broken_upload_goes_on_where_it_stopped(api, engineer, model_files):
    client = api(engineer)
    upload = announce(client, model_files).json()["id"]
    weights = model_files["model.safetensors"]
    assert send(client, upload, 1, weights[:1000]).headers["Upload-Offset"] == "1000"
    wrong = send(client, upload, 1, weights[2000:3000], offset=2000)
    assert wrong.status_code == 409
    head = client.head(f"/api/v1/uploads/{upload}/files/1")
    assert wrong.headers["Upload-Offset"] == head.headers["Upload-Offset"] == "1000"
    assert client.get(f"/api/v1/uploads/{upload}").json()["files"][1]["received"] == 1000
    assert send(client, upload, 1, weights[1000:], offset=1000).status_code == 200
    send(client, upload, 0, model_files["config.json"])
    unfinished = finish(client, upload, model_files)
    assert (unfinished.status_code, "tokenizer.json: 0 of 2 bytes" in unfinished.json()["detail"]) == (409, True)
    send(client, upload, 2, model_files["tokenizer.json"])
    assert finish(client, upload, model_files).status_code == 201


def test_a_connection_that_breaks_keeps_what_came(engineer, api, model_files):
    upload = Upload.objects.get(pk=announce(api(engineer), model_files).json()["id"])

    class Broken:
        left = [b"x" * 500]

        def read(self, size):
            if not self.left:
                raise UnreadablePostError
            return self.left.pop()

    assert append(upload, 1, 0, Broken(), 1000).received == 500


def test_a_wrong_or_missing_hash_is_refused(api, engineer, model_files, settings):
    client = api(engineer)
    upload = announce(client, model_files).json()["id"]
    send_files(client, upload, model_files)
    answer = finish(client, upload, model_files | {"tokenizer.json": b"other"})
    assert answer.status_code == 422
    error = answer.json()["errors"][0]
    assert (error["file"], error["field"]) == ("tokenizer.json", "sha256")
    assert nothing_kept(settings)
    only_config = {"config.json": model_files["config.json"]}
    upload = announce(client, only_config).json()["id"]
    send(client, upload, 0, only_config["config.json"])
    assert finish(client, upload, {}).json()["detail"] == "config.json: sha256: is required"
    assert finish(client, upload, only_config).status_code == 201


DEEP = b'{"a":' * 900 + b"1" + b"}" * 900


BAD: dict[str, tuple[dict[str, bytes], str]] = {
    "broken JSON": ({"config.json": b'{"model_type": }'}, "config.json: line 1, column 16: broken JSON"),
    "pickle": ({"model.safetensors": b"\x80\x04N."}, "model.safetensors: the content is a pickle"),
    "nested": ({"config.json": DEEP}, "config.json: the JSON is nested deeper than 100 levels"),
    "name of 395 bytes": ({"ж" * 195 + ".json": b"{}"}, "path: a path has at most 255 bytes in UTF-8"),
    "climbs": ({"../evil.json": b"{}"}, "../evil.json: path: the path climbs out"),
    "two": (
        {"added_tokens.json": b"{", "merges.txt": b"PK\x03\x04"},
        "added_tokens.json: line 1, column 2: broken JSON",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_models_are_refused_and_leave_nothing(api, engineer, model_files, settings, case):
    change, sentence = BAD[case]
    answer = upload_model(api(engineer), model_files | change)
    assert (answer.status_code, sentence in answer.json()["detail"]) == (422, True)
    assert answer.json()["detail"].endswith(" (and 1 more)") == (case == "two")
    assert answer.json()["errors"][0]["file"]
    assert nothing_kept(settings)


def test_a_name_and_a_folder_are_read_and_bytes_come_as_they_were_announced(api, engineer, model_files, settings):
    client = api(engineer)
    for name, detail in (("a\x1bb", "control characters are not allowed"), (" \t", "spaces alone are not enough")):
        assert announce(client, model_files, name=name).json()["detail"] == f"name: {detail}"
    missing = announce(client, {"model.safetensors": b"x"})
    assert missing.json()["detail"].startswith("config.json: the file is missing")
    upload = announce(client, {f"my-model/{path}": each for path, each in model_files.items()}, name=" tiny ").json()
    assert (upload["name"], [file["path"] for file in upload["files"]]) == ("tiny", list(model_files))
    upload = announce(client, model_files).json()["id"]
    assert send(client, upload, 2, b"123").status_code == 413
    for offset in ("", "-1", "x", "1.5", "9" * 30):
        assert send(client, upload, 0, b"x", offset).status_code == 422, offset
    settings.UPLOAD_CHUNK_BYTES = 10
    assert "a chunk has at most 10 bytes" in send(client, upload, 1, b"x" * 11).json()["detail"]


def test_quotas(api, engineer, model_files, settings):
    client = api(engineer)
    kept = used_bytes(engineer.memberships.get().organisation)
    settings.ORGANISATION_QUOTA_BYTES = kept + sum(map(len, model_files.values())) + 10
    assert announce(client, model_files).status_code == 201
    over = announce(client, model_files)
    assert (over.status_code, "10 bytes left of the organisation's quota" in over.json()["detail"]) == (413, True)
    settings.MODEL_MAX_BYTES = 5
    assert "a model may have" in announce(client, model_files).json()["detail"]
    settings.MODEL_MAX_BYTES = 80 * 2**30
    sizes = [{"path": "config.json", "size": 2}, {"path": "model.safetensors", "size": 300 * 2**30}]
    huge = client.post("/api/v1/uploads", {"name": "huge", "files": sizes})
    assert "322,122,547,202 bytes (300.0 GiB) are over the 85,899,345,920 bytes (80.0 GiB)" in huge.json()["detail"]
    assert Upload.objects.count() == 1


def test_a_large_body_is_streamed(api, engineer):
    size = 200 * 2**20
    files = [{"path": "config.json", "size": 1}, {"path": "model.safetensors", "size": size}]
    response = api(engineer).post("/api/v1/uploads", {"name": "big", "files": files})

    class Endless:
        def read(self, wanted):
            assert wanted <= blobs.CHUNK
            return bytes(wanted)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert append(Upload.objects.get(pk=response.json()["id"]), 1, 0, Endless(), size).received == size
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024
