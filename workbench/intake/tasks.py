"""Intake's scheduled work."""

import logging

from celery import shared_task

from workbench.intake.models import Upload
from workbench.intake.services import checking, queue, recordings, uploads
from workbench.storage import disk
from workers.documents.broker import CHECK_UPLOADS_TASK, SWEEP_UPLOADS_TASK

log = logging.getLogger(__name__)


@shared_task(name=SWEEP_UPLOADS_TASK)
def sweep_uploads() -> None:
    """Remove abandoned uploads and recordings that no workload names, and keep room for deletions."""
    if removed := uploads.sweep_uploads():
        log.info("removed %s abandoned uploads", removed)
    if removed := recordings.sweep():
        log.info("removed %s recordings that no workload names", removed)
    if Upload.objects.waiting().exists():
        queue.check_soon()
    disk.keep_room()


@shared_task(name=CHECK_UPLOADS_TASK)
def check_uploads() -> None:
    """Check what came by uploads."""
    checking.check_waiting()
