"""The command against a live server, as a user runs it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from tests.workbench.intake.conftest import MODEL_FILES
from workbench import broker
from workbench.accounts import tokens
from workbench.cli.commands import app
from workbench.intake.services import checking
from workers.documents.broker import CHECK_UPLOADS_TASK

SLA = "traffic: {prompt_tokens: 16, output_tokens: 8}\nobjectives:\n  - {metric: ttft, limit: 100}\n"


@pytest.fixture(autouse=True)
def _checked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uploads are checked in the request that asks for it: no worker runs beside the live server."""

    def send(task: str, *_: object) -> bool:
        if task == CHECK_UPLOADS_TASK:
            checking.check_waiting()
        return True

    monkeypatch.setattr(broker, "send", send)


@pytest.fixture
def secret(organisation, engineer) -> str:
    """A token that may write."""
    return tokens.issue(organisation, engineer, "cli", "write")[1]


@pytest.fixture
def cli(live_server: Any, secret: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """`cli("runs", "--json")`: the result of the command."""
    monkeypatch.setenv("WORKBENCH_URL", live_server.url)
    monkeypatch.setenv("WORKBENCH_TOKEN", secret)
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def sla_file(tmp_path: Path) -> Path:
    file = tmp_path / "sla.yaml"
    file.write_text(SLA)
    return file


@pytest.fixture
def model_dir(tmp_path: Path) -> Path:
    """A small Hugging Face model directory with zero weights, and things that do not belong to the model."""
    directory = tmp_path / "tiny"
    directory.mkdir()
    for name, content in MODEL_FILES.items():
        (directory / name).write_bytes(content)
    (directory / ".cache").mkdir()
    (directory / ".cache" / "lock").write_text("")
    return directory
