"""Tasks with database access: the stages that need no GPU, and the sweep.

celery -A workers.ledger worker -Q ledger -c 1 -n ledger@%h -B
"""

import importlib
import logging
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "workbench.settings")
django.setup()

from celery import Task  # noqa: E402
from django.db import DatabaseError, close_old_connections  # noqa: E402
from pydantic import BaseModel  # noqa: E402

from workbench.intake import blobs  # noqa: E402
from workbench.intake.services.cleaning import sweep_uploads  # noqa: E402
from workbench.runs import services, state  # noqa: E402
from workbench.runs.garbage import collect_when_due  # noqa: E402
from workbench.runs.sweep import sweep as run_sweep  # noqa: E402
from workers.app import app  # noqa: E402
from workers.config import WorkerConfig  # noqa: E402
from workers.documents.broker import LEDGER_TASK, SWEEP_TASK  # noqa: E402
from workers.documents.stages import Progress, StageFailure, StageInput  # noqa: E402
from workers.documents.worker_api import StageKey  # noqa: E402
from workers.stages.cli import sentence_of  # noqa: E402
from workers.stages.context import Context, StageError  # noqa: E402

log = logging.getLogger(__name__)


class DatabaseTask(Task):
    """Begins and ends with connections that are not stale."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        close_old_connections()
        try:
            return super().__call__(*args, **kwargs)
        finally:
            close_old_connections()


@app.task(name=SWEEP_TASK, base=DatabaseTask)
def sweep() -> None:
    """Retry what died, send again what was not delivered, remove abandoned uploads."""
    swept = run_sweep()
    if swept.retried or swept.published:
        log.info("swept: %s", swept)
    if removed := sweep_uploads():
        log.info("removed %s abandoned uploads", removed)
    collect_when_due()


@app.task(name=LEDGER_TASK, base=DatabaseTask, bind=True)
def run_stage(self: Task, run_id: str, stage: str, attempt: int) -> None:
    """Run one attempt at a stage that needs no GPU, if it is to be had."""
    key = StageKey(run_id=run_id, stage=cast(Any, stage), attempt=attempt)
    run = state.claim(key, self.request.hostname)
    if run is None:
        log.info("dropped %s of run %s, attempt %s: it is not to be had", stage, run_id, attempt)
        return
    try:
        _perform(key, services.stage_input(run, key))
    except StageError as error:
        state.fail(key, error.failure)
    except DatabaseError:
        raise  # the lease runs out and the sweep tries again
    except Exception as error:
        log.exception("stage %s of run %s", stage, run_id)
        state.fail(key, StageFailure(sentence=f"The {stage} stage failed: {sentence_of(error)}"))


def _perform(key: StageKey, document: StageInput) -> None:
    def listen(said: Progress) -> None:
        state.progress(key, [said])

    function = _stage(document.stage)
    with tempfile.TemporaryDirectory(prefix=f"stage-{document.stage}-") as directory:
        context = Context(Path(directory), Path(directory), listen, document.seconds_left)
        result = function(document, context)
        for kept in context.kept:
            blobs.store([(context.kept_dir / kept.sha256).read_bytes()], expect=kept.sha256)
        state.advance(key, result.model_dump(mode="json"), context.kept)


def _stage(name: str) -> Callable[[StageInput, Context], BaseModel]:
    module = importlib.import_module(f"{WorkerConfig.from_environment().stage_package}.{name}")
    return cast(Callable[[StageInput, Context], BaseModel], module.run)
