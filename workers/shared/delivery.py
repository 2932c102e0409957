"""How every Celery worker of the pipeline takes and keeps its messages.

No process that runs Celery imports torch: a stage runs in a process of its own.
"""

import ctypes
import logging.config
import os
from multiprocessing.sharedctypes import RawValue
from typing import Any

from celery import Celery
from celery.signals import beat_embedded_init, setup_logging, worker_process_init, worker_shutting_down

from workers.documents.broker import LONGEST_STAGE_SECONDS, broker_options
from workers.shared import logs
from workers.shared.lifeline import die_with_parent

_stopping = RawValue(ctypes.c_bool, False)
"""In memory that the pool's processes share with the worker, which forks them."""


def worker_is_stopping() -> bool:
    """Whether this worker was told to stop (SIGTERM); asked from its pool's processes."""
    return bool(_stopping.value)


def celery_app(name: str, **options: Any) -> Celery:
    """A Celery application on the broker that REDIS_URL names; `options` go to `celery.Celery`."""
    app = Celery(name, **options)
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
    )
    return app


@setup_logging.connect
def _log_as_every_process(loglevel: Any = "INFO", **_: Any) -> None:
    logging.config.dictConfig(logs.configuration(loglevel))


@worker_process_init.connect
@beat_embedded_init.connect
def _end_with_the_worker(**_: Any) -> None:
    """A pool or schedule process whose worker was killed must not live on and hold a job or a GPU.

    In a process group of its own it is spared the SIGTERM that a service manager sends to the worker's whole group.
    """
    os.setpgid(0, 0)
    die_with_parent(os.getppid())


@worker_shutting_down.connect
def _tell_the_pool(**_: Any) -> None:
    _stopping.value = True
