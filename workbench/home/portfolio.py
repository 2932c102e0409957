"""What a person's customers have in the workbench: workloads with their newest run, what runs, what awaits review."""

from statistics import median
from typing import Any, NamedTuple

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet

from workbench.intake.models import Workload
from workbench.reports.models import Report
from workbench.runs import run_queue
from workbench.runs.models import Run, StageRun, Tag

MAX_SHOWN = 8
"""How many open runs, and reports that await review, the page names."""
NEWEST: dict[str, tuple[str, tuple[str, ...]]] = {
    "open": ("state", Run.OPEN),
    "met": ("verdict", ("met",)),
    "missed": ("verdict", ("missed",)),
    "undecided": ("verdict", ("too_close", "not_enough_samples")),
    "ended": ("state", (Run.State.FAILED, Run.State.CANCELLED, Run.State.LOST)),
}
"""The states that the page filters by: a column of the newest run, and its values. "none" has no run."""
ORDERS: dict[str, tuple[Any, ...]] = {
    "newest": (F("newest_run__created_at").desc(nulls_last=True), "-created_at"),
    "oldest": (F("newest_run__created_at").asc(nulls_last=True), "created_at"),
    "name": ("name", "-created_at"),
    "model": ("model__name", "-created_at"),
    "price": (F("newest_run__usd_after").asc(nulls_last=True), "-created_at"),
    "saving": ((F("newest_run__usd_before") / F("newest_run__usd_after")).desc(nulls_last=True), "-created_at"),
}


class OpenRun(NamedTuple):
    """A run that is not over. `seconds` until it ends is computed from the last runs of its class; None if unknown."""

    run: Run
    seconds: float | None


SHOWN = (
    *("name", "document", "created_at", "project"),
    *("model__name", "organisation__name", "created_by__email", "created_by__name"),
    *("newest_run__state", "newest_run__verdict", "newest_run__gpu_class", "newest_run__created_at"),
    *("newest_run__usd_before", "newest_run__usd_after"),
)
"""The columns that a row of the page shows."""

SHOWN_OF_OPEN = (
    *("state", "stage", "gpu_class", "created_at", "started_at"),
    *("organisation__name", "workload__name", "workload__model__name"),
)
"""The columns that the page shows of an open run, or goes by."""


def workloads(user: Any) -> QuerySet[Workload]:
    """The workloads of all the user's organisations, with what their rows show."""
    related = Workload.objects.of_memberships(user).select_related("model", "organisation", "newest_run", "created_by")
    return related.only(*SHOWN).prefetch_related("newest_run__tags")


def choices(user: Any) -> dict[str, list[str]]:
    """What the user's workloads can be filtered by: models, GPU classes, projects, and the tags of their runs."""
    fields = {"model": "model__name", "gpu": "newest_run__gpu_class", "project": "project"}
    rows = set(Workload.objects.of_memberships(user).order_by().values_list(*fields.values()).distinct())
    values = {name: sorted({row[at] for row in rows if row[at]}) for at, name in enumerate(fields)}
    tags = Tag.objects.of_memberships(user).order_by("name").values_list("name", flat=True)
    return values | {"tag": list(tags.distinct())}


def filtered(rows: QuerySet[Workload], chosen: dict[str, Any]) -> QuerySet[Workload]:
    """The rows that pass the filters (`FilterForm.chosen`), sorted."""
    rows = rows.filter(archived_at__isnull=not chosen.get("archived"))
    if text := chosen.get("q"):
        rows = rows.filter(Q(name__icontains=text) | Q(model__name__icontains=text))
    if state := chosen.get("state"):
        rows = rows.filter(_in_state(state))
    if tag := chosen.get("tag"):
        rows = rows.filter(Exists(Run.objects.filter(workload=OuterRef("pk"), tags__name=tag)))
    names = {"model": "model__name", "gpu": "newest_run__gpu_class", "customer": "organisation", "project": "project"}
    rows = rows.filter(**{field: chosen[name] for name, field in names.items() if name in chosen})
    return rows.order_by(*ORDERS[chosen.get("sort", "newest")])


def _in_state(state: str) -> Q:
    if state == "none":
        return Q(newest_run=None)
    column, values = NEWEST[state]
    return Q(**{f"newest_run__{column}__in": values})


def counts(user: Any) -> dict[str, int]:
    """How many workloads that are not archived there are, and how many in each state."""
    rows = Workload.objects.of_memberships(user).filter(archived_at=None).order_by()
    groups = list(rows.values_list("newest_run__state", "newest_run__verdict").annotate(Count("pk")))
    number = {name: 0 for name in (*NEWEST, "none")}
    for state, verdict, count in groups:
        for name, (column, values) in NEWEST.items():
            number[name] += count * ((state if column == "state" else verdict) in values)
        number["none"] += count * (state is None)
    return number | {"all": sum(count for _, _, count in groups)}


def open_runs(user: Any) -> list[OpenRun]:
    """The runs that are queued or running, the oldest first; at most MAX_SHOWN."""
    rows = Run.objects.of_memberships(user).filter(state__in=Run.OPEN).select_related("workload__model", "organisation")
    shown = list(rows.only(*SHOWN_OF_OPEN).order_by("created_at")[:MAX_SHOWN])
    lines = {name: run_queue.ClassQueue(name) for name in {run.gpu_class for run in shown}}
    return [OpenRun(run, lines[run.gpu_class].seconds_left(run)) for run in shown]


def awaiting_review(user: Any) -> tuple[list[Report], int]:
    """The oldest reports that are not published, at most MAX_SHOWN, and how many there are."""
    rows = Report.objects.of_memberships(user).exclude(state=Report.State.PUBLISHED)
    shown = list(rows.defer("snapshot").select_related("organisation").order_by("created_at")[:MAX_SHOWN])
    return shown, len(shown) if len(shown) < MAX_SHOWN else rows.count()


def savings(user: Any) -> tuple[int, int, float | None]:
    """How many workloads' newest runs made a token (or what the model gives) cheaper at one load, promise or not; of
    how many; and the median factor.

    Runs without a price on either side do not count, nor those that served one request at a time: they measured a
    latency.
    """
    newest = Workload.objects.of_memberships(user).filter(archived_at=None, newest_run__state="done")
    prices = StageRun.objects.filter(run__in=newest.values("newest_run"), stage="price", state=StageRun.State.DONE)
    values = prices.values_list("run__usd_before", "run__usd_after", "result__same_load__before__users")
    ratios = [before / after for before, after, users in values if before and after and users and users > 1]
    factors = [ratio for ratio in ratios if ratio > 1]
    return len(factors), len(ratios), median(factors) if factors else None
