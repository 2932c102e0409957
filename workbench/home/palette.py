"""What the command palette finds."""

from typing import Any
from uuid import UUID

from django.urls import reverse

from workbench.intake.models import Model, Workload
from workbench.reports.models import Report
from workbench.runs.models import Run

MAX_PER_GROUP = 5
SHORTEST_RUN_ID = 4


def search(user: Any, words: str) -> list[dict[str, str]]:
    """Things of the organisation, each with its kind, name and address, the newest of each kind first."""
    words = words.strip()[:120]
    if not words:
        return []
    kinds: list[tuple[str, Any, str]] = [
        ("workload", Workload.objects.for_user(user).filter(name__icontains=words), "name"),
        ("model", Model.objects.for_user(user).filter(name__icontains=words), "name"),
        ("report", Report.objects.for_user(user).filter(title__icontains=words), "title"),
    ]
    matches = [
        {"kind": kind, "name": name, "address": reverse(kind, args=[key])}
        for kind, rows, field in kinds
        for key, name in rows.order_by("-created_at").values_list("pk", field)[:MAX_PER_GROUP]
    ]
    return matches + _runs(user, words.replace("-", "").lower())


def _runs(user: Any, prefix: str) -> list[dict[str, str]]:
    """Runs whose id begins so; of UUIDs the database compares the ends of a range."""
    if len(prefix) < SHORTEST_RUN_ID or len(prefix) > 32 or set(prefix) - set("0123456789abcdef"):
        return []
    between = (UUID(prefix.ljust(32, "0")), UUID(prefix.ljust(32, "f")))
    runs = Run.objects.for_user(user).filter(pk__range=between).values_list("pk", "workload__name")
    return [
        {"kind": "run", "name": f"{str(key)[:8]} of {name}", "address": reverse("run", args=[key])}
        for key, name in runs[:MAX_PER_GROUP]
    ]
