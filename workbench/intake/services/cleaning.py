"""Removing models, and uploads that nobody goes on with."""

from datetime import timedelta

from django.db import transaction
from django.db.models import ProtectedError
from django.utils import timezone

from workbench.api.sentences import Problem
from workbench.intake import blobs
from workbench.intake.models import Model, Upload
from workbench.intake.services.receiving import discard

ABANDONED_AFTER = timedelta(days=1)


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
    """Removes uploads that nobody has touched for a day, with their bytes; returns how many."""
    old = list(Upload.objects.filter(touched_at__lt=timezone.now() - ABANDONED_AFTER))
    for upload in old:
        discard(upload)
    known = {str(key) for key in Upload.objects.values_list("pk", flat=True)}
    blobs.sweep_incoming(known, ABANDONED_AFTER.total_seconds())
    return len(old)
