"""`make pin-images` against a registry of the test's own, which speaks the HTTP API's manifests, with tokens."""

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def script(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("pin_images", root / "scripts" / "pin_images.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_image_of_ours_is_found(script, root, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "digest", lambda image: "sha256:" + "c" * 64)
    (tmp_path / "deploy").mkdir()
    for name in script.FILES:
        shutil.copy(root / name, tmp_path / name)
    assert script.main(tmp_path) == 0
    pinned = "".join((tmp_path / name).read_text() for name in script.FILES)
    assert pinned.count("@sha256:" + "c" * 64) == 5
    assert script.address("nginx:1.28-bookworm") == ("registry-1.docker.io", "library/nginx", "1.28-bookworm")
