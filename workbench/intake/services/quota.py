"""How much an organisation may upload."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.db.models import F, Sum

from workbench.api.quota import check_count, check_space, too_large, used_bytes
from workbench.intake.models import Model, Upload, UploadFile

GIB = 2**30
ENDED_UPLOADS = 100
"""How many uploads of an organisation that have ended can be asked for."""


def check_models(organisation: Any) -> None:
    """Refuses one model too many. Raises Problem 409."""
    models = Model.objects.filter(organisation=organisation)
    check_count(models, settings.ORGANISATION_MODELS, "models", "delete one that is not needed any more")


def check(organisation: Any, sizes: Sequence[int]) -> None:
    """Refuses an upload that is too large for a model, the organisation's quota or the disk, or one too many.

    Raises Problem 409, 413 or 507.
    """
    check_models(organisation)
    total = sum(sizes)
    if total > settings.MODEL_MAX_BYTES:
        raise too_large(f"{_bytes(total)} are over the {_bytes(settings.MODEL_MAX_BYTES)} that a model may have")
    check_upload(organisation, total)


def check_upload(organisation: Any, total: int) -> None:
    """Refuses so many bytes that are over the organisation's quota or the disk, or an upload too many.

    Raises Problem 409, 413 or 507.
    """
    uploads = Upload.objects.filter(organisation=organisation)
    ended = uploads.exclude(pk__in=uploads.open()).order_by("-touched_at").values_list("pk", flat=True)
    uploads.filter(pk__in=list(ended[ENDED_UPLOADS:])).delete()
    check_count(uploads.open(), settings.ORGANISATION_OPEN_UPLOADS, "open uploads", "finish one or give one up")
    bytes_left = settings.ORGANISATION_QUOTA_BYTES - used_bytes(organisation)
    if total > bytes_left:
        raise too_large(f"{_bytes(total)} are over the {_bytes(max(0, bytes_left))} left of the organisation's quota")
    still_to_come = UploadFile.objects.aggregate(total=Sum(F("size") - F("received")))["total"] or 0
    check_space(total + still_to_come)


def _bytes(count: int) -> str:
    """`322,122,547,200 bytes (300.0 GiB)`; fewer than a GiB are bytes alone."""
    return f"{count:,} bytes" + (f" ({count / GIB:,.1f} GiB)" if count >= GIB else "")
