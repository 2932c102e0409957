"""Stages that need no GPU, in the ledger's worker."""

import errno
from typing import Any

import pytest

from workbench.runs import tasks
from workbench.runs.models import Run
from workers.documents.stages import StageInput
from workers.harness.context import Context


@pytest.fixture
def priced(run: Run) -> Run:
    """A run that waits for its stage without a GPU."""
    Run.objects.filter(id=run.id).update(stage="price")
    run.refresh_from_db()
    return run


def _run(run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception) -> Any:
    def stage(document: StageInput, context: Context) -> None:
        raise error

    monkeypatch.setattr(tasks, "_stage", lambda name: stage)
    outcome = tasks.run_stage.apply(args=(str(run.id), "price", 1))
    run.refresh_from_db()
    return outcome


def test_a_full_disk_leaves_the_run_to_the_sweep(priced: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = _run(priced, monkeypatch, OSError(errno.ENOSPC, "No space left on device"))
    assert outcome.failed()
    assert (priced.state, priced.error) == ("running", None)


def test_another_error_fails_the_run_with_a_sentence(priced: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _run(priced, monkeypatch, ValueError("the numbers do not add up")).successful()
    assert priced.state == "failed"
    assert "the numbers do not add up" in priced.error["sentence"]  # type: ignore[index]
