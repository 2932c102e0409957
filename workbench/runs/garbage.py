"""Removes blobs that nothing refers to, and rows that have had their time."""

import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from workbench.accounts.models import ApiToken
from workbench.api.idempotency import KEPT
from workbench.api.models import IdempotentRequest
from workbench.intake import blobs
from workbench.intake.models import Recording, StoredFile
from workbench.runs.models import Event, StoredArtifact

COLLECT_EVERY_SECONDS = 3600


def collect_when_due() -> None:
    """Removes unreferenced blobs and old rows if an hour has passed since the last time, which a file's time marks."""
    mark = Path(settings.BLOBS) / "collected"
    if mark.exists() and time.time() - mark.stat().st_mtime < COLLECT_EVERY_SECONDS:
        return
    mark.touch()
    collect_blobs()
    prune()


def prune() -> None:
    """Removes old progress of runs, tokens and sessions that ended, and answers that were kept.

    Of a run's events only what its stages said while they ran goes; its transitions stay.
    """
    now = timezone.now()
    over = now - timedelta(days=settings.EVENT_DAYS)
    ApiToken.objects.filter(Q(revoked_at__lt=over) | Q(expires_at__lt=over)).delete()
    Event.objects.filter(kind="progress", run__finished_at__lt=over).delete()
    IdempotentRequest.objects.filter(created_at__lt=now - KEPT).delete()
    import_module(settings.SESSION_ENGINE).SessionStore.clear_expired()


def collect_blobs() -> int:
    """Removes blobs older than a day that nothing refers to; returns how many."""
    return blobs.collect({sha256 for rows in _referring() for sha256 in rows.values_list("sha256", flat=True)})


def _referring() -> tuple[QuerySet[Any], ...]:
    """Everything that refers to blobs."""
    return StoredFile.objects.all(), Recording.objects.all(), StoredArtifact.objects.all()


def release(hashes: Mapping[str, datetime]) -> None:
    """Removes the blobs of deleted rows that no other row refers to; `hashes` says when those rows were there.

    A blob that came again since then stays for the collection: somebody may be about to refer to it.
    """
    for sha256, since in hashes.items():
        if not any(rows.filter(sha256=sha256).exists() for rows in _referring()):
            blobs.remove(sha256, older_than=since.timestamp())
