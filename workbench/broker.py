"""Sends tasks to the broker by their names. A broker that is down costs the sender little time."""

import functools
import logging
from collections.abc import Sequence

from celery import Celery
from django.conf import settings
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from workers.documents.broker import broker_options, gpu_class_of

log = logging.getLogger(__name__)

ONE_TRY = {"max_retries": 1, "interval_start": 0, "interval_step": 0, "interval_max": 0}
"""A person waits for the answer, so a broker that is down must not delay the request by more than one try."""
PATIENCE_SECONDS = 2.0
"""How long a broker that takes connections and does not answer is waited for."""


def _sender(queue: str) -> Celery:
    """The application that sends to this queue: those of the GPU workers lie in a database of their own."""
    return _sender_at(settings.GPU_REDIS_URL if gpu_class_of(queue) else settings.REDIS_URL)


@functools.cache
def _sender_at(url: str) -> Celery:
    sender = Celery("workbench", fixups=[], set_as_current=False)
    sender.conf.update(broker_options(url))
    sender.conf.broker_transport_options |= ONE_TRY | {
        "socket_timeout": PATIENCE_SECONDS,
        "socket_connect_timeout": PATIENCE_SECONDS,
    }
    return sender


def send(task: str, queue: str, arguments: Sequence[object] = ()) -> bool:
    """Send a task's message; whether the broker took it."""
    try:
        _sender(queue).send_task(task, args=tuple(arguments), queue=queue, retry=False)
    except (OperationalError, RedisError, OSError) as error:
        log.warning("%s %s waits for the sweep, the broker took no message: %s", task, arguments, error)
        return False
    return True


def messages_in(queue: str) -> int | None:
    """How many messages wait in a queue; None when the broker cannot be asked."""
    try:
        with _sender(queue).pool.acquire(block=True) as connection:
            return int(connection.default_channel.client.llen(queue))
    except (OperationalError, RedisError, OSError) as error:
        log.warning("the broker does not say how long %s is: %s", queue, error)
        return None
