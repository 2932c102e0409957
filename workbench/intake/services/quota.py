"""How much an organisation may store."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.db.models import F, QuerySet, Sum

from workbench.api.sentences import Problem
from workbench.intake import blobs
from workbench.intake.models import Model, Recording, Upload, UploadFile

GIB = 2**30


def used_bytes(organisation: Any) -> int:
    """Bytes of the organisation's models and recordings, of its uploads as announced and of what its runs kept."""
    files = UploadFile.objects.filter(upload__organisation=organisation)
    own = (rows.filter(organisation=organisation) for rows in (Model.objects, Recording.objects))
    rows = (*own, files, organisation.artifacts)
    return sum(each.aggregate(total=Sum("size"))["total"] or 0 for each in rows)


def announced_bytes() -> int:
    """Bytes that all open uploads have announced and that have not come yet."""
    return UploadFile.objects.aggregate(total=Sum(F("size") - F("received")))["total"] or 0


def check_space(coming: int) -> None:
    """Refuses bytes that would eat into the space that database and Redis keep. Raises Problem 507."""
    if coming > blobs.free_bytes() - settings.DISK_RESERVE_BYTES:
        raise Problem(507, "files: there is not enough space on the workbench's disk for them")


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
    check_count(uploads, settings.ORGANISATION_OPEN_UPLOADS, "open uploads", "finish one or give one up")
    left = settings.ORGANISATION_QUOTA_BYTES - used_bytes(organisation)
    if total > left:
        raise too_large(f"{_bytes(total)} are over the {_bytes(max(0, left))} left of the organisation's quota")
    check_space(total + announced_bytes())


def check_bytes(organisation: Any) -> None:
    """Refuses what would keep more files of an organisation whose quota is used up. Raises Problem 413."""
    if used_bytes(organisation) >= settings.ORGANISATION_QUOTA_BYTES:
        raise too_large("the organisation's quota is used up; delete models, runs or kept files")


def check_count(rows: QuerySet[Any] | int, most: int, what: str, remedy: str) -> None:
    """Refuses one more of `rows`, or of so many, when there are `most` of them. Raises Problem 409."""
    there = rows if isinstance(rows, int) else rows.count()
    if there >= most:
        reason = f"the organisation has {most:,} {what}, which is the most it may have; {remedy}"
        raise Problem(409, f"{what}: {reason}", [{"field": what, "reason": reason}])


def _bytes(count: int) -> str:
    """`322,122,547,200 bytes (300.0 GiB)`; fewer than a GiB are bytes alone."""
    return f"{count:,} bytes" + (f" ({count / GIB:,.1f} GiB)" if count >= GIB else "")


def too_large(reason: str) -> Problem:
    """The 413 for `files`."""
    return Problem(413, f"files: {reason}", [{"field": "files", "reason": reason}])
