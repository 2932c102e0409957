"""Tasks with database access: the stages that need no GPU, and the sweep."""

import importlib
import logging
from collections.abc import Callable
from typing import Any, cast

from celery import Task, shared_task
from django.db import DatabaseError
from pydantic import BaseModel, ValidationError

from workbench.intake import blobs
from workbench.runs import garbage, services, state
from workbench.runs.sweep import sweep
from workbench.storage import disk
from workers.config import WorkerConfig
from workers.documents.broker import LEDGER_TASK, SWEEP_RUNS_TASK
from workers.documents.stages import Progress, StageFailure, StageInput
from workers.documents.worker_api import StageKey
from workers.harness.context import Context, StageError
from workers.shared import logs
from workers.shared.scratch import scratch
from workers.wording.errors import error_sentence

log = logging.getLogger(__name__)

STAGE_SECONDS = 600
"""The hard limit of a stage that runs here."""


@shared_task(name=SWEEP_RUNS_TASK)
def sweep_runs() -> None:
    """Retry what died, send again what was not delivered, remove blobs that nothing refers to."""
    swept = sweep()
    if swept.retried or swept.published:
        log.info("swept: %d attempts retried, %d messages sent again", swept.retried, swept.published)
    garbage.collect_when_due()
    disk.shrink_database()


@shared_task(name=LEDGER_TASK, bind=True, time_limit=STAGE_SECONDS)
def run_stage(self: Task, run_id: str, stage: str, attempt: int) -> None:
    """Run one attempt at a stage that needs no GPU, if that attempt is still queued."""
    try:
        key = StageKey(run_id=run_id, stage=cast(Any, stage), attempt=attempt)
    except ValidationError as error:
        log.error("dropped a message that names no stage of a run: %s", error)
        return
    with logs.bound(request_id=self.request.id, **key.model_dump()):
        _run_stage(key, self.request.hostname)


def _run_stage(key: StageKey, worker: str) -> None:
    run = state.claim(key, worker)
    if run is None:
        log.info("dropped %s of run %s, attempt %s: it is already claimed or ended", key.stage, key.run_id, key.attempt)
        return
    try:
        _perform(key, services.stage_input(run, key))
    except StageError as error:
        state.fail(key, error.failure)
    except DatabaseError:
        raise  # the lease runs out and the sweep tries again
    except Exception as error:
        if disk.is_full(error):
            raise  # the same: there may be space by then
        log.exception("stage %s of run %s failed", key.stage, key.run_id)
        state.fail(key, StageFailure(sentence=f"The {key.stage} stage failed: {error_sentence(error)}"))


def _perform(key: StageKey, document: StageInput) -> None:
    def listen(progress: Progress) -> None:
        state.progress(key, [progress])

    function = _stage(document.stage)
    with scratch(WorkerConfig.from_environment().scratch) as directory:
        context = Context(directory, directory, listen, document.seconds_left)
        result = function(document, context)
        for artifact in context.saved:
            blobs.store([(context.saved_dir / artifact.sha256).read_bytes()], expect=artifact.sha256)
        state.advance(key, result.model_dump(mode="json"), context.saved)


def _stage(name: str) -> Callable[[StageInput, Context], BaseModel]:
    module = importlib.import_module(f"{WorkerConfig.from_environment().stage_package}.{name}")
    return cast(Callable[[StageInput, Context], BaseModel], module.run)
