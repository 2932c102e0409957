"""The states of a report: frozen from a finished run, reviewed with a note, published."""

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.db import transaction
from django.db.models import F
from django.utils import timezone
from markupsafe import Markup

from workbench.accounts.secrets import keyed_digest, new_secret
from workbench.api import quota
from workbench.api.sentences import Problem
from workbench.audit.models import Action
from workbench.audit.services import record
from workbench.notifications.models import Kind
from workbench.notifications.outbox import announce
from workbench.prices.services import price_book
from workbench.reports import logos, notes
from workbench.reports.documents import Snapshot
from workbench.reports.models import Report, Share
from workbench.runs.models import Run
from workbench.runs.services import reading, stage_times
from workers.report.page import Cover, NoVerdict, render


class ReportError(Problem):
    """A report cannot be made or changed; the message is a sentence."""

    def __init__(self, sentence: str) -> None:
        super().__init__(409, sentence)


def freeze(run: Run, user: Any) -> Report:
    """A draft with everything known of the run now.

    Raises ReportError when the run is not done or not readable, and Problem 413 or 507 when no more may be kept.
    """
    if run.state != Run.State.DONE or run.finished_at is None:
        raise ReportError(f"Only a finished run can be reported; this one is {run.get_state_display().lower()}.")
    quota.check_bytes(run.organisation)
    document, unreadable = run.workload.reading
    manifest, unreadable_model = run.workload.model.reading
    results, unreadable_result = reading(run)
    if document is None or manifest is None or unreadable_result:
        raise ReportError(unreadable or unreadable_model or unreadable_result)
    snapshot = Snapshot(
        run_id=str(run.id),
        customer=run.organisation.name,
        logo=logos.of(run.organisation),
        created_at=run.created_at.isoformat(),
        finished_at=run.finished_at.isoformat(),
        gpu_class=run.gpu_class,
        workload=document,
        model=manifest,
        prices=results.price.book if results.price else price_book(run.organisation),
        stages=stage_times(run),
        results=results,
    )
    with transaction.atomic():
        report = Report.objects.create(
            organisation=run.organisation,
            run=run,
            title=f"{run.workload.name} on {run.workload.model.name}"[:160],
            verdict=run.verdict,
            snapshot=snapshot.model_dump(mode="json"),
            created_by=user,
        )
        record(Action.REPORT_FROZEN, run.organisation, report, actor=user, run=str(run.id))
        _announce(Kind.REPORT_READY, report)
    return report


TRANSITIONS = {
    Action.REPORT_REVIEWED: (Report.State.DRAFT, Report.State.REVIEWED),
    Action.REPORT_REOPENED: (Report.State.REVIEWED, Report.State.DRAFT),
    Action.REPORT_PUBLISHED: (Report.State.REVIEWED, Report.State.PUBLISHED),
}


def _transition(report: Report, action: Action, user: Any, **changes: Any) -> Report:
    old, new = TRANSITIONS[action]
    with transaction.atomic():
        if Report.objects.filter(id=report.id, state=old).update(state=new, **changes) != 1:
            report.refresh_from_db()
            raise ReportError(f"The report is {report.state}, not {old.value}; somebody else may have changed it.")
        record(action, report.organisation, report, actor=user)
        if action == Action.REPORT_PUBLISHED:
            _announce(Kind.REPORT_PUBLISHED, report)
    report.refresh_from_db()
    return report


def review(report: Report, user: Any, note: str, customer: str = "") -> Report:
    """A draft becomes reviewed, with a note and the customer. Raises ReportError when it is not a draft, or the note's
    tables are too large.
    """
    if notes.cells(note) > notes.MAX_CELLS:
        raise ReportError(f"The note's tables may have {notes.MAX_CELLS:,} cells; leave some out.")
    words = {"note": note.strip(), "customer": customer.strip()}
    return _transition(report, Action.REPORT_REVIEWED, user, reviewed_by=user, reviewed_at=timezone.now(), **words)


def reopen(report: Report, user: Any) -> Report:
    """A reviewed report becomes a draft again; its note stays. Raises ReportError when it is not reviewed."""
    return _transition(report, Action.REPORT_REOPENED, user, reviewed_by=None, reviewed_at=None)


def publish(report: Report, user: Any) -> Report:
    """A reviewed report becomes published, for good.

    Raises ReportError when it is not reviewed, or when the organisation asks for four eyes and `user` froze it.
    """
    if report.organisation.four_eyes and report.created_by == user:
        raise ReportError("You froze this report; the organisation asks that somebody else publishes it.")
    return _transition(report, Action.REPORT_PUBLISHED, user, published_by=user, published_at=timezone.now())


def _announce(kind: Kind, report: Report) -> None:
    data = {
        "id": str(report.id),
        "run": str(report.run_id),
        "title": report.title,
        "verdict": report.verdict,
        "url": f"{settings.PUBLIC_URL}/reports/{report.id}/",
    }
    announce(report.organisation_id, kind, lambda: {"report": data})


def render_page(report: Report) -> str:
    """The frozen report as one HTML file, with its note, reviewer, dates and prices. Raises ReportError."""
    document = report.document
    cover = Cover(
        title=report.title,
        customer=report.customer or document.customer or report.organisation.name,
        logo=document.logo,
        state=report.get_state_display(),
        note=notes.html(report.note) if report.state != Report.State.DRAFT else Markup(),
        frozen=f"{report.created_at:%Y-%m-%d}",
        reviewed=_signed(report.reviewed_by, report.reviewed_at),
        published=_signed(report.published_by, report.published_at),
        prices=document.prices,
    )
    try:
        return render(document, cover)
    except NoVerdict as error:
        raise ReportError(str(error)) from error


def _signed(person: Any, moment: datetime | None) -> tuple[str, str] | None:
    """Who and on which day, or None when it has not happened. Strangers read it, so it holds no email address."""
    who = (person.name or "a member") if person else "a former member"
    return (who, f"{moment:%Y-%m-%d}") if moment else None


MAX_LINKS = 20
"""Of one report that work at a time."""


def create_share(report: Report, user: Any, days: int, password: str = "") -> tuple[Share, str]:
    """A link that works for `days`, and its secret, which is not stored. Raises ReportError."""
    if report.state != Report.State.PUBLISHED:
        raise ReportError(f"Only a published report can be shared; this one is {report.get_state_display().lower()}.")
    now, secret = timezone.now(), new_secret()
    if report.shares.filter(revoked_at=None, expires_at__gt=now).count() >= MAX_LINKS:
        raise ReportError(f"The report has {MAX_LINKS} links; revoke one that is no longer needed.")
    with transaction.atomic():
        share = Share.objects.create(
            organisation=report.organisation,
            report=report,
            digest=keyed_digest(secret),
            password=make_password(password) if password else "",
            created_by=user,
            expires_at=now + timedelta(days=days),
        )
        record(Action.REPORT_SHARED, report.organisation, report, actor=user, link=str(share.id), days=days)
    return share, secret


def revoke_share(share: Share, user: Any) -> None:
    """Ends the link at once; revoking twice keeps the first time."""
    with transaction.atomic():
        if Share.objects.filter(pk=share.pk, revoked_at=None).update(revoked_at=timezone.now()):
            record(Action.SHARE_REVOKED, share.organisation, share.report, actor=user, link=str(share.id))


def find_active_share(secret: str) -> Share | None:
    """The link with this secret, if it works and its report is published."""
    return (
        Share.objects.select_related(
            "report__run", "report__organisation", "report__reviewed_by", "report__published_by"
        )
        .filter(digest=keyed_digest(secret), revoked_at=None, expires_at__gt=timezone.now())
        .filter(report__state=Report.State.PUBLISHED)
        .first()
    )


def count_view(share: Share) -> None:
    """The report was opened by the link."""
    Share.objects.filter(pk=share.pk).update(views=F("views") + 1, viewed_at=timezone.now())
