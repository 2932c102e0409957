"""How much an organisation may keep: its files and its rows in the database together."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db.models import QuerySet, Sum

from workbench.api.sentences import Problem
from workbench.storage import disk

FILES = {
    "intake.Model": "organisation",
    "intake.Recording": "organisation",
    "intake.UploadFile": "upload__organisation",
    "runs.StoredArtifact": "organisation",
}
"""Models whose `size` is of files, those of uploads as announced; and how each leads to its organisation."""
ROWS = {
    "api.IdempotentRequest": "organisation",
    "audit.Entry": "organisation",
    "bring_ups.BringUpRow": "organisation",
    "comments.Comment": "organisation",
    "intake.Model": "organisation",
    "intake.Workload": "organisation",
    "notifications.Delivery": "organisation",
    "notifications.Notice": "organisation",
    "prices.PriceBookRow": "organisation",
    "reports.Report": "organisation",
    "runs.StageRun": "run__organisation",
}
"""Models whose rows are as long as a member makes them; the database computes their `row_bytes`."""


def used_bytes(organisation: Any) -> int:
    """Bytes that the organisation keeps, in files and in the database."""
    return sum(_sums(organisation))


def _sums(organisation: Any) -> Iterator[int]:
    for kinds, column in ((FILES, "size"), (ROWS, "row_bytes")):
        for kind, path in kinds.items():
            rows = apps.get_model(kind)._default_manager.filter(**{path: organisation}).order_by()
            yield rows.aggregate(total=Sum(column))["total"] or 0


def check_bytes(organisation: Any) -> None:
    """Refuses what would keep more of an organisation whose quota is used up, or eat into the space that database and
    Redis need to go on. Raises Problem 413 or 507.
    """
    if used_bytes(organisation) >= settings.ORGANISATION_QUOTA_BYTES:
        reason = "the organisation's quota is used up; delete models, workloads, runs or kept files"
        raise _refusal(413, "quota", reason)
    check_space(0)


def check_space(coming: int) -> None:
    """Refuses bytes that would eat into the space that database and Redis keep. Raises Problem 507."""
    if coming > disk.free_bytes(Path(settings.BLOBS)) - settings.DISK_RESERVE_BYTES:
        raise _refusal(507, "disk", "there is not enough space on the workbench's disk")


def check_count(rows: QuerySet[Any] | int, max_count: int, noun: str, remedy: str) -> None:
    """Refuses one more of `rows`, or of so many, when there are `max_count` of them. Raises Problem 409."""
    there = rows if isinstance(rows, int) else rows.count()
    if there >= max_count:
        reason = f"the organisation has {max_count:,} {noun}, which is the most it may have; {remedy}"
        raise _refusal(409, noun, reason)


def too_large(reason: str) -> Problem:
    """The 413 for `files`."""
    return _refusal(413, "files", reason)


def _refusal(status: int, field: str, reason: str) -> Problem:
    return Problem(status, f"{field}: {reason}", [{"field": field, "reason": reason}])
