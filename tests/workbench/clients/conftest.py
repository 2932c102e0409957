"""A token for the live server, and a pipeline whose runs end at once."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sample_results
from django.core.signals import request_started

from workbench.accounts import tokens
from workbench.runs.models import Run, StageRun


@pytest.fixture
def environment(live_server: Any, organisation: Any, engineer: Any, client_folder: Path) -> dict[str, str]:
    """The variables that the examples read, and the import path with the generated client."""
    secret = tokens.issue(organisation, engineer, "client", "write")[1]
    asked = {"WORKBENCH_URL": live_server.url, "WORKBENCH_TOKEN": secret, "WORKBENCH_POLL_SECONDS": "0.05"}
    return os.environ | asked | {"PYTHONPATH": str(client_folder)}


@pytest.fixture
def client(environment: dict[str, str]) -> Any:
    """The generated client, with a token that may write."""
    from kernel_workbench_client import AuthenticatedClient

    return AuthenticatedClient(base_url=environment["WORKBENCH_URL"], token=environment["WORKBENCH_TOKEN"])


@pytest.fixture
def end_runs() -> Iterator[Callable[[str, str], None]]:
    """`end_runs(state, verdict)`: from now on a run is over once somebody reads it; done ones have sample results.

    It happens in the server's own thread, before it answers: the database in memory serves one thread at a time.
    """
    receivers: list[Callable[..., None]] = []

    def begin(state: str, verdict: str) -> None:
        def receive(environ: dict[str, Any], **_: object) -> None:
            if environ["REQUEST_METHOD"] == "GET" and environ["PATH_INFO"].startswith("/api/v1/runs/"):
                _end(state, verdict)

        receivers.append(receive)
        request_started.connect(receive)

    yield begin
    for receive in receivers:
        request_started.disconnect(receive)


def _end(state: str, verdict: str) -> None:
    results = sample_results.results().model_dump(mode="json")
    for stage in StageRun.objects.filter(run__state__in=Run.OPEN):
        StageRun.objects.filter(pk=stage.pk).update(state="done", result=results[stage.stage])
    Run.objects.filter(state__in=Run.OPEN).update(state=state, verdict=verdict, stage="report")
