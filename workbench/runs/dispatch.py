"""Sends a queued run's message to the broker: ids alone, by the task's name, after the transaction has committed.

A broker that is down costs nothing but time: the row keeps `published_at` empty and the sweep sends it again.
"""

import functools
import logging
import uuid

from celery import Celery
from django.conf import settings
from django.db import transaction
from django.utils import timezone
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from workbench.runs.models import Run
from workers.documents.broker import GPU_TASK, LEDGER_QUEUE, LEDGER_TASK, broker_options, gpu_queue
from workers.documents.stages import GPU_STAGES

log = logging.getLogger(__name__)

ONE_TRY = {"max_retries": 1, "interval_start": 0, "interval_step": 0, "interval_max": 0}
"""A person waits for the answer, so a broker that is down must not delay the request by more than one try."""
PATIENCE_SECONDS = 2.0
"""How long a broker that takes connections and does not answer is waited for."""


@functools.cache
def _sender() -> Celery:
    sender = Celery("workbench", fixups=[], set_as_current=False)
    sender.conf.update(broker_options(settings.REDIS_URL))
    sender.conf.broker_transport_options |= ONE_TRY | {
        "socket_timeout": PATIENCE_SECONDS,
        "socket_connect_timeout": PATIENCE_SECONDS,
    }
    return sender


def after_commit(run_id: uuid.UUID) -> None:
    """Publish the run when the present transaction has committed."""
    transaction.on_commit(functools.partial(publish, run_id))


def queue_of(stage: str, gpu_class: str) -> str:
    """The broker's queue for a stage."""
    return gpu_queue(gpu_class) if stage in GPU_STAGES else LEDGER_QUEUE


def messages_in(queue: str) -> int | None:
    """How many messages wait in a queue; None when the broker cannot be asked."""
    try:
        with _sender().pool.acquire(block=True) as connection:
            return int(connection.default_channel.client.llen(queue))
    except (OperationalError, RedisError, OSError) as error:
        log.warning("the broker does not say how long %s is: %s", queue, error)
        return None


def publish(run_id: uuid.UUID) -> bool:
    """Send the message of the attempt that is queued now; whether one was sent."""
    run = Run.objects.filter(id=run_id, state=Run.State.QUEUED).first()
    if run is None:
        return False
    task = GPU_TASK if run.stage in GPU_STAGES else LEDGER_TASK
    queue = queue_of(run.stage, run.gpu_class)
    try:
        _sender().send_task(task, args=(str(run.id), run.stage, run.attempt), queue=queue, retry=False)
    except (OperationalError, RedisError, OSError) as error:
        log.warning("run %s waits for the sweep, the broker took no message: %s", run.id, error)
        return False
    rows = Run.objects.filter(id=run.id, state=Run.State.QUEUED, stage=run.stage, attempt=run.attempt)
    rows.update(published_at=timezone.now())
    return True
