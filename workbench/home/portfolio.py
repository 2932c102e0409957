"""What a person's customers have in the workbench: workloads with their newest run, what runs, what awaits review."""

from statistics import median
from typing import Any, NamedTuple

from django.db.models import Count, F, Q, QuerySet
from django.utils import timezone

from workbench.intake.models import Workload
from workbench.reports.models import Report
from workbench.runs import line
from workbench.runs.models import Run, StageRun

MOST_SHOWN = 8
"""How many open runs, and reports that await review, the page names."""
STATE_FILTERS = {
    "open": Q(newest_run__state__in=Run.OPEN),
    "met": Q(newest_run__verdict="met"),
    "missed": Q(newest_run__verdict="missed"),
    "undecided": Q(newest_run__verdict__in=("too_close", "not_enough_samples")),
    "ended": Q(newest_run__state__in=(Run.State.FAILED, Run.State.CANCELLED, Run.State.LOST)),
    "none": Q(newest_run=None),
}
ORDERS: dict[str, tuple[Any, ...]] = {
    "newest": (F("newest_run__created_at").desc(nulls_last=True), "-created_at"),
    "oldest": (F("newest_run__created_at").asc(nulls_last=True), "created_at"),
    "name": ("name", "-created_at"),
    "model": ("model__name", "-created_at"),
}


class OpenRun(NamedTuple):
    """A run that is not over. `seconds` until it ends is computed from the last runs of its class; None if unknown."""

    run: Run
    seconds: float | None


SHOWN = (
    *("name", "document", "created_at"),
    *("model__name", "organisation__name", "created_by__email", "created_by__name"),
    *("newest_run__state", "newest_run__verdict", "newest_run__gpu_class", "newest_run__created_at"),
)
"""The columns that a row of the page shows."""


def workloads(user: Any) -> QuerySet[Workload]:
    """The workloads of all the user's organisations, with what their rows show."""
    related = Workload.objects.of_memberships(user).select_related("model", "organisation", "newest_run", "created_by")
    return related.only(*SHOWN)


def choices(user: Any) -> tuple[list[str], list[str]]:
    """The names of the models, and the GPU classes, that the user's workloads have."""
    rows = Workload.objects.of_memberships(user).order_by().values_list("model__name", "newest_run__gpu_class")
    pairs = list(rows.distinct())
    return sorted({name for name, _ in pairs}), sorted({gpu_class for _, gpu_class in pairs if gpu_class})


def filtered(rows: QuerySet[Workload], chosen: dict[str, Any]) -> QuerySet[Workload]:
    """The rows that pass the filters (`FilterForm.chosen`), sorted."""
    rows = rows.filter(archived_at__isnull=not chosen.get("archived"))
    if text := chosen.get("q"):
        rows = rows.filter(Q(name__icontains=text) | Q(model__name__icontains=text))
    if state := chosen.get("state"):
        rows = rows.filter(STATE_FILTERS[state])
    names = {"model": "model__name", "gpu": "newest_run__gpu_class", "customer": "organisation"}
    rows = rows.filter(**{field: chosen[name] for name, field in names.items() if name in chosen})
    return rows.order_by(*ORDERS[chosen.get("sort", "newest")])


def counts(user: Any) -> dict[str, int]:
    """How many workloads that are not archived there are, and how many in each state; `ever` counts archived ones."""
    present = Q(archived_at=None)
    counted = {name: Count("pk", filter=present & condition) for name, condition in STATE_FILTERS.items()}
    rows = Workload.objects.of_memberships(user)
    return rows.aggregate(ever=Count("pk"), all=Count("pk", filter=present), **counted)


def open_runs(user: Any) -> list[OpenRun]:
    """The runs that are queued or running, the oldest first; at most MOST_SHOWN."""
    rows = Run.objects.of_memberships(user).filter(state__in=Run.OPEN).select_related("workload__model", "organisation")
    rows = rows.defer("workload__document", "workload__model__manifest")
    shown = list(rows.order_by("created_at")[:MOST_SHOWN])
    lines = {name: line.Line(name) for name in {run.gpu_class for run in shown}}
    return [OpenRun(run, _seconds_left(run, lines[run.gpu_class])) for run in shown]


def _seconds_left(run: Run, waiting: line.Line) -> float | None:
    typical = waiting.typical_seconds
    if typical is None:
        return None
    if run.started_at is not None:
        return max(0.0, typical - (timezone.now() - run.started_at).total_seconds())
    place = waiting.place_of(run)
    return None if place is None or place.seconds is None else place.seconds + typical


def awaiting_review(user: Any) -> tuple[list[Report], int]:
    """The oldest reports that are not published, at most MOST_SHOWN, and how many there are."""
    rows = Report.objects.of_memberships(user).exclude(state=Report.State.PUBLISHED)
    shown = list(rows.defer("snapshot").select_related("organisation").order_by("created_at")[:MOST_SHOWN])
    return shown, len(shown) if len(shown) < MOST_SHOWN else rows.count()


def savings(user: Any) -> tuple[int, float | None]:
    """For how many workloads the newest run made a token (or what the model gives) cheaper, and the median factor."""
    newest = Workload.objects.of_memberships(user).filter(archived_at=None, newest_run__state="done")
    prices = StageRun.objects.filter(run__in=newest.values("newest_run"), stage="price", state=StageRun.State.DONE)
    factors = [each for each in prices.values_list("result__before_after_ratio", flat=True) if each and each > 1]
    return len(factors), median(factors) if factors else None
