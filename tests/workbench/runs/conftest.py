"""A run that waits for its first stage, and clients for both APIs."""

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings

from tests.workbench.conftest import JsonClient
from workbench.accounts.models import User
from workbench.intake.models import Workload
from workbench.runs import services
from workbench.runs.models import Run
from workers.documents.worker_api import CLAIM_HEADER, StageKey


@pytest.fixture
def run(workload: Workload, engineer: User) -> Run:
    """A queued run."""
    return services.create_run(workload, engineer)


@pytest.fixture
def key(run: Run) -> StageKey:
    """The first attempt at the first stage."""
    return StageKey(run_id=str(run.id), stage="admit", attempt=1)


@pytest.fixture
def worker(db: None) -> Callable[..., Any]:
    """`worker("claim", {...})`: a call of the worker API with its token, and with that of its last claim."""
    client = JsonClient(headers={"Authorization": f"Bearer {settings.WORKER_TOKEN}"})

    def call(path: str, body: dict[str, Any]) -> Any:
        answer = client.post(f"/api/v1/worker/{path}", body)
        if CLAIM_HEADER in answer.headers:
            client.defaults[f"HTTP_{CLAIM_HEADER.upper().replace('-', '_')}"] = answer.headers[CLAIM_HEADER]
        return answer

    call.client = client  # type: ignore[attr-defined]
    return call
