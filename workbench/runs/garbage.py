"""Removes blobs that neither a model's file nor a run's artifact refers to."""

import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from django.conf import settings

from workbench.intake import blobs
from workbench.intake.models import StoredFile
from workbench.runs.models import StoredArtifact
from workbench.runs.pruning import prune

COLLECT_EVERY_SECONDS = 3600


def collect_when_due() -> None:
    """Removes unreferenced blobs and old rows if an hour has passed since the last time."""
    if _collection_is_due():
        collect_blobs()
        prune()


def collect_blobs() -> int:
    """Removes blobs older than a day that no model's file and no run's artifact refers to; returns how many."""
    wanted = set(StoredFile.objects.values_list("sha256", flat=True))
    wanted.update(StoredArtifact.objects.values_list("sha256", flat=True))
    return blobs.collect(wanted)


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
        wanted = (StoredFile.objects, StoredArtifact.objects)
        if not any(rows.filter(sha256=sha256).exists() for rows in wanted):
            blobs.remove(sha256, older_than=since.timestamp())
