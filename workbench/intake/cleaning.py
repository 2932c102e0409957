"""Removing models, uploads that nobody goes on with, and blobs that nothing refers to."""

import time
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import ProtectedError
from django.utils import timezone

from workbench.api.sentences import Problem
from workbench.intake import blobs
from workbench.intake.models import Model, StoredFile, Upload
from workbench.intake.receiving import discard
from workbench.runs.models import StoredArtifact

ABANDONED_AFTER = timedelta(days=1)
COLLECT_EVERY_SECONDS = 3600


def delete_model(model: Model) -> None:
    """Removes a model that no workload is about. Raises Problem 409 otherwise."""
    try:
        with transaction.atomic():
            model.delete()
    except ProtectedError:
        count = model.workloads.count()
        used = f"{count} workload{'s are' if count > 1 else ' is'} about this model; it cannot be removed"
        raise Problem(409, used, [{"field": "model", "reason": used}]) from None


def sweep_uploads() -> int:
    """Removes uploads that nobody has touched for a day, with their bytes; returns how many.

    Once an hour also the blobs that no model and no run refers to.
    """
    old = list(Upload.objects.filter(touched_at__lt=timezone.now() - ABANDONED_AFTER))
    for upload in old:
        discard(upload)
    known = {str(key) for key in Upload.objects.values_list("pk", flat=True)}
    blobs.sweep_incoming(known, ABANDONED_AFTER.total_seconds())
    if _collection_is_due():
        collect_blobs()
    return len(old)


def collect_blobs() -> int:
    """Removes blobs older than a day that no model's file and no run's artifact refers to; returns how many."""
    wanted = set(StoredFile.objects.values_list("sha256", flat=True))
    wanted.update(StoredArtifact.objects.values_list("sha256", flat=True))
    return blobs.collect(wanted)


def _collection_is_due() -> bool:
    """Whether the last collection, marked by a file's time, is an hour ago; marks this one."""
    mark = Path(settings.BLOBS) / "collected"
    if mark.exists() and time.time() - mark.stat().st_mtime < COLLECT_EVERY_SECONDS:
        return False
    mark.touch()
    return True
