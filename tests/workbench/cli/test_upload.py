"""An upload that is broken off goes on where it stopped."""

import json
from types import SimpleNamespace

import httpx
import pytest

from tests.kernels.gguf_files import write_gguf
from tests.workbench.intake.conftest import CONFIG
from workbench.cli import upload as uploading
from workbench.cli.client import ApiClient
from workbench.cli.errors import CliError, Exit
from workbench.intake.models import Model, Upload, UploadFile

pytestmark = pytest.mark.django_db(transaction=True)


class Flaky(httpx.HTTPTransport):
    """Breaks the connection on some PATCHes: before they are sent, or after the server has taken them."""

    def __init__(self, breaks: dict[int, str]) -> None:
        super().__init__()
        self.breaks, self.patches, self.sent = breaks, 0, 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.method != "PATCH":
            return super().handle_request(request)
        self.patches += 1
        when = self.breaks.get(self.patches)
        if when == "before":
            raise httpx.ConnectError("broken", request=request)
        self.sent += int(request.headers["Content-Length"])
        response = super().handle_request(request)
        if when == "after":
            response.read()
            raise httpx.ReadError("broken", request=request)
        return response


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(uploading, "MAX_CHUNK_BYTES", 8000)
    monkeypatch.setattr(uploading, "time", SimpleNamespace(sleep=lambda _: None))


def _interrupted(live_server, secret, model_dir, first):
    """An upload whose connection breaks before its PATCH of this number and does not come back."""
    dead = Flaky({number: "before" for number in range(first, 100)})
    with pytest.raises(CliError, match="submit again to go on from there") as raised:
        uploading.upload(ApiClient(live_server.url, secret, dead), model_dir, _say)
    assert raised.value.code == Exit.FAILED
    return dead


def _say(what, done, total):
    assert 0 <= done <= total


def _size(directory):
    return sum(path.stat().st_size for path in directory.iterdir() if path.is_file())


def test_a_broken_connection_costs_no_byte_twice_and_what_is_left_out_is_named(live_server, secret, model_dir, capsys):
    line = Flaky({3: "before", 5: "after", 6: "before"})
    model = uploading.upload(ApiClient(live_server.url, secret, line), model_dir, _say)
    assert Model.objects.get().digest == model["digest"]
    assert line.sent == _size(model_dir)
    (model_dir / "optimizer.pt").write_bytes(b"x")
    (model_dir / "onnx").mkdir()
    files = uploading.read_directory(model_dir, _say)
    assert {"optimizer.pt", "onnx"}.isdisjoint(file.path for file in files)
    assert "Left out, as the model is read without them: .cache/, onnx/, optimizer.pt." in capsys.readouterr().err


def test_another_day_it_goes_on(live_server, secret, model_dir):
    dead = _interrupted(live_server, secret, model_dir, 4)
    kept = sum(UploadFile.objects.values_list("received", flat=True))
    assert 0 < kept == dead.sent
    line = Flaky({})
    uploading.upload(ApiClient(live_server.url, secret, line), model_dir, _say)
    assert line.sent == _size(model_dir) - kept
    assert Model.objects.count() == 1


def test_a_gguf_file_is_handed_in_alone(live_server, secret, tmp_path, monkeypatch):
    monkeypatch.setattr(uploading, "MAX_CHUNK_BYTES", 2**20)
    path = write_gguf(tmp_path / "tiny.gguf")
    model = uploading.upload(ApiClient(live_server.url, secret), path, _say)
    assert (model["name"], [file["path"] for file in model["files"]]) == ("tiny", ["tiny.gguf"])


def test_changed_files_start_anew(live_server, secret, model_dir):
    _interrupted(live_server, secret, model_dir, 3)
    (model_dir / "tokenizer.json").write_text('{"other": 1}')
    line = Flaky({})
    uploading.upload(ApiClient(live_server.url, secret, line), model_dir, _say)
    assert line.sent == _size(model_dir)


def test_all_that_is_wrong_is_told_before_anything_is_sent(live_server, secret, model_dir):
    (model_dir / "added_tokens.json").write_text("{")
    (model_dir / "config.json").write_text(
        json.dumps(CONFIG | {"model_type": "own", "auto_map": {"AutoModel": "code.Model"}})
    )
    line = Flaky({})
    with pytest.raises(CliError, match=r"config\.json: auto_map: remote code is not run.*added_tokens\.json: line 1"):
        uploading.upload(ApiClient(live_server.url, secret, line), model_dir, _say)
    assert line.patches == 0
    assert not Upload.objects.open().exists()
