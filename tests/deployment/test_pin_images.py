"""`make pin-images` finds every image that we name."""

import importlib
import shutil
from pathlib import Path

import pytest


def test_every_image_of_ours_is_found(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = importlib.import_module("scripts.pin_images")
    monkeypatch.setattr(script, "digest", lambda image: "sha256:" + "c" * 64)
    (tmp_path / "deploy").mkdir()
    for name in script.FILES:
        shutil.copy(root / name, tmp_path / name)
    assert script.main(tmp_path) == 0
    pinned = "".join((tmp_path / name).read_text() for name in script.FILES)
    assert pinned.count("@sha256:" + "c" * 64) == 5
    assert script.address("nginx:1.28-bookworm") == ("registry-1.docker.io", "library/nginx", "1.28-bookworm")
