"""Links by which people without a login read a published report."""

from datetime import timedelta
from typing import Any

from django.contrib.auth.hashers import make_password
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from workbench.accounts.secrets import keyed_digest, new_link_secret
from workbench.audit.models import Action
from workbench.audit.services import record
from workbench.reports.models import Report, Share
from workbench.reports.services import ReportError

MOST_WORKING = 20
"""The most links of one report that work at a time."""


def share(report: Report, user: Any, days: int, password: str = "") -> tuple[Share, str]:
    """A link that works for `days`, and its secret, which is not stored. Raises ReportError."""
    if report.state != Report.State.PUBLISHED:
        raise ReportError(f"Only a published report can be shared; this one is {report.get_state_display().lower()}.")
    now, secret = timezone.now(), new_link_secret()
    if report.shares.filter(revoked_at=None, expires_at__gt=now).count() >= MOST_WORKING:
        raise ReportError(f"The report has {MOST_WORKING} links; revoke one that is no longer needed.")
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


def revoke(share: Share, user: Any) -> None:
    """Ends the link at once; revoking twice keeps the first time."""
    with transaction.atomic():
        if Share.objects.filter(pk=share.pk, revoked_at=None).update(revoked_at=timezone.now()):
            record(Action.SHARE_REVOKED, share.organisation, share.report, actor=user, link=str(share.id))


def find(secret: str) -> Share | None:
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
