"""The scheduled delivery of notices."""

import logging

from celery import shared_task

from workbench.notifications import delivering
from workers.documents.broker import NOTICES_TASK

log = logging.getLogger(__name__)


@shared_task(name=NOTICES_TASK)
def deliver() -> None:
    """Send what is due, and remove what is old."""
    if tried := delivering.deliver_due():
        log.info("tried %s deliveries", tried)
    delivering.prune()
