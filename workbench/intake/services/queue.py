"""Has the worker of the queue `intake` look for uploads to check."""

from functools import partial

from django.db import transaction

from workbench import broker
from workers.documents.broker import CHECK_UPLOADS_TASK, INTAKE_QUEUE


def check_soon() -> None:
    """Send the task's message once the present transaction has committed. One that is lost is sent by the sweep."""
    transaction.on_commit(partial(broker.send, CHECK_UPLOADS_TASK, INTAKE_QUEUE))
