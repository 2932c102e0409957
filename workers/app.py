"""The Celery application. Workers start from the module with their tasks:

    celery -A workers.gpu worker -Q gpu.cpu -c 1 -n gpu-cpu-0@%h
    celery -A workers.ledger worker -Q ledger -c 1 -n ledger@%h -B

No process that runs Celery imports torch: a stage runs in a process of its own.
"""

import os
from pathlib import Path
from typing import Any

from celery import Celery
from celery.signals import beat_embedded_init, worker_process_init

from workers.documents.broker import (
    GPU_TASK,
    LEDGER_QUEUE,
    LEDGER_TASK,
    LONGEST_STAGE_SECONDS,
    SWEEP_TASK,
    broker_options,
)
from workers.lifeline import die_with_parent

SWEEP_SECONDS = float(os.environ.get("SWEEP_SECONDS", 30))
DATA = Path(os.environ.get("WORKBENCH_DATA", "var")).resolve()

app = Celery("workers", fixups=[])
app.conf.update(
    broker_options(os.environ.get("REDIS_URL", "")),
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    worker_max_tasks_per_child=100,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    task_time_limit=LONGEST_STAGE_SECONDS,
    timezone="UTC",
    task_routes={LEDGER_TASK: {"queue": LEDGER_QUEUE}, SWEEP_TASK: {"queue": LEDGER_QUEUE}},
    task_annotations={GPU_TASK: {"time_limit": LONGEST_STAGE_SECONDS}, LEDGER_TASK: {"time_limit": 600}},
    beat_schedule={
        "sweep": {"task": SWEEP_TASK, "schedule": SWEEP_SECONDS, "options": {"expires": SWEEP_SECONDS}},
    },
    beat_schedule_filename=str(DATA / "celerybeat-schedule"),
)


@worker_process_init.connect
@beat_embedded_init.connect
def _end_with_the_worker(**_: Any) -> None:
    """A pool or schedule process whose worker was killed must not live on and hold a job or a GPU."""
    die_with_parent(os.getppid())
