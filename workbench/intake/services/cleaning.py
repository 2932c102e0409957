"""Removing uploads that nobody goes on with."""

from datetime import timedelta

from django.utils import timezone

from workbench.intake import blobs
from workbench.intake.models import Upload
from workbench.intake.services.receiving import discard

ABANDONED_AFTER = timedelta(days=1)


def sweep_uploads() -> int:
    """Removes uploads that nobody has touched, or that ended, a day ago, with their bytes; returns how many."""
    rows = Upload.objects.exclude(state=Upload.State.CHECKING)  # those wait for us, however long we were away
    old = list(rows.filter(touched_at__lt=timezone.now() - ABANDONED_AFTER))
    for upload in old:
        discard(upload)
    known = {str(key) for key in Upload.objects.values_list("pk", flat=True)}
    blobs.sweep_incoming(known, ABANDONED_AFTER.total_seconds())
    return len(old)
