"""Sends a queued run's message to the broker: ids alone, by the task's name, after the transaction has committed.

A broker that is down costs nothing but time: the row keeps `published_at` empty and the sweep sends it again.
"""

import functools
import uuid

from django.db import transaction
from django.utils import timezone

from workbench import broker
from workbench.runs.models import Run
from workers.documents.broker import GPU_TASK, LEDGER_QUEUE, LEDGER_TASK, gpu_queue
from workers.documents.stages import GPU_STAGES


def after_commit(run_id: uuid.UUID) -> None:
    """Publish the run when the present transaction has committed."""
    transaction.on_commit(functools.partial(publish, run_id))


def queue_of(stage: str, gpu_class: str) -> str:
    """The broker's queue for a stage."""
    return gpu_queue(gpu_class) if stage in GPU_STAGES else LEDGER_QUEUE


def publish(run_id: uuid.UUID) -> bool:
    """Send the message of the attempt that is queued now; whether one was sent."""
    run = Run.objects.filter(id=run_id, state=Run.State.QUEUED).first()
    if run is None:
        return False
    task = GPU_TASK if run.stage in GPU_STAGES else LEDGER_TASK
    if not broker.send(task, queue_of(run.stage, run.gpu_class), (str(run.id), run.stage, run.attempt)):
        return False
    rows = Run.objects.filter(id=run.id, state=Run.State.QUEUED, stage=run.stage, attempt=run.attempt)
    rows.update(published_at=timezone.now())
    return True
