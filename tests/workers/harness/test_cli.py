"""A stage by hand: what cannot be read or written is one sentence."""

import json
import subprocess
import sys
from pathlib import Path


def priced(*arguments: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "workers.stages.price", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_bad_document_is_a_failure_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text("{}")
    done = priced(tmp_path / "in.json", tmp_path / "out.json")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "Field required" in json.loads((tmp_path / "out.json").read_text())["sentence"]


def test_a_result_that_has_no_place_is_refused_before_anything_runs(tmp_path: Path) -> None:
    done = priced(tmp_path / "in.json", tmp_path / "gone" / "out.json")
    assert done.returncode == 2
    assert f"output: there is no directory {tmp_path / 'gone'}" in done.stderr
    assert "Traceback" not in done.stderr
