"""How much an organisation may store."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.db.models import Sum

from workbench.api.problems import Problem
from workbench.intake import blobs
from workbench.intake.models import Model, UploadFile

SPARE_BYTES = 1 << 30
"""Disk space that uploads leave free."""


def used_bytes(organisation: Any) -> int:
    """Bytes of the organisation's models and of its uploads as announced."""
    models = Model.objects.filter(organisation=organisation).aggregate(total=Sum("size"))["total"] or 0
    files = UploadFile.objects.filter(upload__organisation=organisation)
    return models + (files.aggregate(total=Sum("size"))["total"] or 0)


def check(organisation: Any, sizes: Sequence[int]) -> None:
    """Refuses an upload that is too large for a model, the organisation's quota or the disk. Raises Problem."""
    total = sum(sizes)
    if total > settings.MODEL_MAX_BYTES:
        raise too_large(f"{total:,} bytes are over the {settings.MODEL_MAX_BYTES:,} that a model may have")
    left = settings.ORGANISATION_QUOTA_BYTES - used_bytes(organisation)
    if total > left:
        raise too_large(f"{total:,} bytes are over the {max(0, left):,} left of the organisation's quota")
    if total > blobs.free_bytes() - SPARE_BYTES:
        raise Problem(507, "files: there is not enough space on the workbench's disk for them")


def too_large(reason: str) -> Problem:
    """The 413 for `files`."""
    return Problem(413, f"files: {reason}", [{"field": "files", "reason": reason}])
