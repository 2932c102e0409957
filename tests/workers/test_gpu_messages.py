"""A message that names no stage of a run is dropped at once: the workbench is not even asked."""

import time
from pathlib import Path
from typing import Any

import pytest

from workers.gpu import run_stage

RUN = "00000000-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    "message", [("x", "admit", 1), ("", "admit", 1), (7, "admit", 1), (RUN, "nonesuch", 1), (RUN, "admit", 0)]
)
def test_a_message_that_names_nothing_is_dropped(message: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKER_TOKEN", "of the test")
    monkeypatch.setenv("WORKER_API_URL", "http://127.0.0.1:9")
    begun = time.monotonic()
    done = run_stage.apply(args=message, routing_key="gpu.cpu")
    assert done.successful()
    assert time.monotonic() - begun < 30, "the worker waits for a workbench that cannot be reached"


def test_a_worker_without_a_place_for_a_stages_files_claims_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk, or a link that somebody put there, costs no attempt."""
    (tmp_path / "stages").symlink_to(tmp_path)
    monkeypatch.setenv("WORKER_TOKEN", "of the test")
    monkeypatch.setenv("WORKER_API_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WORKBENCH_DATA", str(tmp_path))
    assert run_stage.apply(args=(RUN, "admit", 1), routing_key="gpu.cpu").successful()
    assert "no stage claimed, scratch folder unavailable" in caplog.text
    assert "workbench unreachable" not in caplog.text
