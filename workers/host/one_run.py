"""`--one-run SECONDS`: a worker that takes one message and ends, as the jobs that KEDA starts (deploy/helm/).

A job is never scaled down while it has a run, and takes no second one on the way to its end.
"""

import logging
import tempfile
import time
from pathlib import Path
from typing import Any

import click
from celery import Celery, bootsteps
from celery.exceptions import WorkerShutdown
from celery.signals import task_received
from celery.worker import state

log = logging.getLogger(__name__)

HAS_A_RUN = Path(tempfile.gettempdir(), "has-a-run")
"""A file that is there from the moment on when the worker has a message. The chart's readiness probe looks for it."""


class ExitAfterOneMessage(bootsteps.StartStopStep):
    """Ends the worker after its first message, or after `one_run` seconds without one."""

    requires = {"celery.worker.components:Timer"}

    def __init__(self, worker: Any, one_run: float | None = None, **options: Any) -> None:
        super().__init__(worker, **options)
        self.enabled = one_run is not None
        self._idle_seconds = one_run or 0.0
        self._has_message = False

    def start(self, worker: Any) -> None:
        HAS_A_RUN.unlink(missing_ok=True)
        task_received.connect(self._take_no_more, weak=False)
        worker.timer.call_repeatedly(0.5, self._end, (time.monotonic() + self._idle_seconds,))

    def _take_no_more(self, sender: Any, **_: Any) -> None:
        """`sender` is the worker's consumer."""
        self._has_message = True
        HAS_A_RUN.touch()
        for queue in list(sender.app.amqp.queues.consume_from):
            sender.cancel_task_queue(queue)

    def _end(self, idle_until: float) -> None:
        """A request is reserved from its receipt until its message is acknowledged."""
        if self._has_message and not state.reserved_requests:
            raise WorkerShutdown(0)
        if not self._has_message and time.monotonic() > idle_until:
            log.info("no message received, worker exits")
            raise WorkerShutdown(0)


def offer(app: Celery) -> None:
    words = "end after one message, or after so many seconds without one"
    app.user_options["worker"].add(click.Option(["--one-run"], type=float, metavar="SECONDS", help=words))
    app.steps["worker"].add(ExitAfterOneMessage)
