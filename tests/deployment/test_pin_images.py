"""`make pin-images` against a registry of the test's own, which speaks the HTTP API's manifests, with tokens."""

import importlib.util
import json
import re
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.programs import ROOT

DIGESTS = {"/v2/web/nginx/manifests/1.28": "sha256:" + "a" * 64, "/v2/open/redis/manifests/7": "sha256:" + "b" * 64}


class _Registry(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        where = f"http://{self.headers['Host']}"
        if self.path.startswith("/v2/web/") and self.headers.get("Authorization") != "Bearer anybody":
            self._answer(401, f'Bearer realm="{where}/token",service="registry",scope="repository:web/nginx:pull"')
        elif self.path in DIGESTS and "image.index" in self.headers["Accept"]:
            self._answer(200)
        else:
            self._answer(404)

    def _answer(self, status: int, challenge: str = "") -> None:
        self.send_response(status)
        if challenge:
            self.send_header("WWW-Authenticate", challenge)
        if status == 200:
            self.send_header("Docker-Content-Digest", DIGESTS[self.path])
        self.end_headers()

    def do_GET(self) -> None:
        assert self.path == "/token?service=registry&scope=repository%3Aweb%2Fnginx%3Apull"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"token": "anybody"}).encode())

    def log_message(self, *arguments: object) -> None:
        """Nothing on the terminal."""


@pytest.fixture
def registry() -> Iterator[str]:
    """`host:port` of the registry."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def script() -> ModuleType:
    spec: Any = importlib.util.spec_from_file_location("pin_images", ROOT / "scripts" / "pin_images.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _write(folder: Path, registry: str, tag: str = "1.28") -> None:
    (folder / "Dockerfile").write_text(f"# FROM comment\nFROM {registry}/open/redis:7 AS base\nRUN true\n")
    compose = f"services:\n  front:\n    image: {registry}/web/nginx:{tag}\n  web:\n    image: kernel-workbench:cpu\n"
    (folder / "docker-compose.yml").write_text(compose)
    (folder / "deploy").mkdir(exist_ok=True)
    (folder / "deploy" / "serve.Dockerfile").write_text(f"FROM {registry}/open/redis:7\n")


def test_tags_become_digests_and_are_asked_again_and_an_image_that_is_not_there_changes_nothing(
    script, registry, tmp_path, capsys
):
    _write(tmp_path, registry)
    assert script.main(tmp_path) == 0
    docker, compose, serve = ((tmp_path / name).read_text() for name in script.FILES)
    assert f"FROM {registry}/open/redis:7@sha256:{'b' * 64} AS base\nRUN true\n" in docker
    assert f"image: {registry}/web/nginx:1.28@sha256:{'a' * 64}\n" in compose
    assert "image: kernel-workbench:cpu\n" in compose
    assert serve == f"FROM {registry}/open/redis:7@sha256:{'b' * 64}\n"
    stale = compose.replace("a" * 64, "0" * 64)
    (tmp_path / "docker-compose.yml").write_text(stale)
    assert script.main(tmp_path) == 0
    assert (tmp_path / "docker-compose.yml").read_text() == compose
    _write(tmp_path, registry, tag="none")
    before = (tmp_path / "Dockerfile").read_text()
    assert script.main(tmp_path) == 1
    assert (tmp_path / "Dockerfile").read_text() == before
    assert re.search(r"nginx:none: .*404", capsys.readouterr().err)


def test_every_image_of_ours_is_found(script, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "digest", lambda image: "sha256:" + "c" * 64)
    (tmp_path / "deploy").mkdir()
    for name in script.FILES:
        shutil.copy(ROOT / name, tmp_path / name)
    assert script.main(tmp_path) == 0
    pinned = "".join((tmp_path / name).read_text() for name in script.FILES)
    assert pinned.count("@sha256:" + "c" * 64) == 5
    assert script.address("nginx:1.28-bookworm") == ("registry-1.docker.io", "library/nginx", "1.28-bookworm")
