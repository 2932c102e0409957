"""What members did and what became of runs, newest first."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

from django.urls import reverse

from workbench.audit.models import Action, Entry
from workbench.runs.models import Run

MAX_SHOWN = 50
SUBJECTS = ("report.", "comment.", "model.", "workload.", "run.", "file.", "bring_up.")
SHOWN = [action for action in Action if action.startswith(SUBJECTS)] + [Action.PRICES_CHANGED, Action.MEMBER_JOINED]
"""Of the audit log, which admins read, what every member may know."""


class ActivityRow(NamedTuple):
    """Who did what to what, when. `address` is where it can be seen; "" for nowhere any more."""

    at: datetime
    who: str
    what: str
    subject: str
    address: str = ""
    state: str = ""


def recent_activity(user: Any, organisation: Any, before: datetime | None) -> list[ActivityRow]:
    """At most MAX_SHOWN rows of the organisation, of before a moment if one is given."""
    rows = [*_audit_rows(organisation, before), *_starts(user, before), *_ends(user, before)]
    return sorted(rows, key=lambda row: row.at, reverse=True)[:MAX_SHOWN]


def _audit_rows(organisation: Any, before: datetime | None) -> Iterator[ActivityRow]:
    entries = Entry.objects.of(organisation).filter(action__in=SHOWN).select_related("actor")
    for entry in (entries.filter(at__lt=before) if before else entries)[:MAX_SHOWN]:
        who = str(entry.actor) if entry.actor else "Somebody"
        yield ActivityRow(entry.at, who, entry.label[0].lower() + entry.label[1:], entry.subject, _address(entry))


def _address(entry: Entry) -> str:
    if entry.action.endswith(".deleted"):
        return ""
    named = {"report": entry.subject_id} if entry.action.startswith("report.") else entry.details
    for page in ("report", "run"):
        if page in named and (entry.action.startswith("report.") or entry.action == Action.COMMENT_ADDED):
            return reverse(page, args=[named[page]])
    return ""


def _starts(user: Any, before: datetime | None) -> Iterator[ActivityRow]:
    for run in _runs(user, "created_at", before):
        who = str(run.created_by) if run.created_by else "A former member"
        yield ActivityRow(run.created_at, who, "started a run of", run.workload.name, reverse("run", args=[run.pk]))


def _ends(user: Any, before: datetime | None) -> Iterator[ActivityRow]:
    for run in _runs(user, "finished_at", before):
        if run.finished_at:
            address, state = reverse("run", args=[run.pk]), run.verdict or run.state
            yield ActivityRow(run.finished_at, "", "A run ended:", run.workload.name, address, state)


def _runs(user: Any, moment: str, before: datetime | None) -> Any:
    runs = Run.objects.for_user(user).filter(**{f"{moment}__isnull": False}).select_related("workload", "created_by")
    runs = runs.filter(**{f"{moment}__lt": before}) if before else runs
    related = ("workload__name", "created_by__name", "created_by__email")
    shown = runs.only("created_at", "finished_at", "state", "verdict", *related)
    return shown.order_by(f"-{moment}")[:MAX_SHOWN]
