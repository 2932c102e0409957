"""Removes blobs that no model's file, no recording and no run's artifact refers to."""

import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import QuerySet

from workbench.intake import blobs
from workbench.intake.models import Recording, StoredFile
from workbench.runs.models import StoredArtifact
from workbench.runs.pruning import prune

COLLECT_EVERY_SECONDS = 3600


def collect_when_due() -> None:
    """Removes unreferenced blobs and old rows if an hour has passed since the last time."""
    if _collection_is_due():
        collect_blobs()
        prune()


def collect_blobs() -> int:
    """Removes blobs older than a day that nothing refers to; returns how many."""
    return blobs.collect({sha256 for rows in _referring() for sha256 in rows.values_list("sha256", flat=True)})


def _referring() -> tuple[QuerySet[Any], ...]:
    """Everything that refers to blobs."""
    return StoredFile.objects.all(), Recording.objects.all(), StoredArtifact.objects.all()


def _collection_is_due() -> bool:
    """Whether an hour has passed since the last collection. A file's time marks the last one; this call updates it."""
    mark = Path(settings.BLOBS) / "collected"
    if mark.exists() and time.time() - mark.stat().st_mtime < COLLECT_EVERY_SECONDS:
        return False
    mark.touch()
    return True


def release(hashes: Mapping[str, datetime]) -> None:
    """Removes the blobs of deleted rows that no other row refers to; `hashes` says when those rows were there.

    A blob that came again since then stays for the collection: somebody may be about to refer to it.
    """
    for sha256, since in hashes.items():
        if not any(rows.filter(sha256=sha256).exists() for rows in _referring()):
            blobs.remove(sha256, older_than=since.timestamp())
