"""Adds comments, and tells the members that they mention."""

import re
from typing import Any

from django.conf import settings
from django.db import transaction
from django.urls import reverse

from workbench.accounts.models import Membership
from workbench.api import quota
from workbench.api.sentences import Problem
from workbench.audit.models import Action
from workbench.audit.services import record
from workbench.comments.models import Comment
from workbench.notifications.models import Kind, Notice
from workbench.notifications.outbox import announce
from workbench.reports.models import Report
from workbench.runs.models import Run

MAX_COMMENTS = 200
"""On one run or report, whose page shows them all."""


def add(target: Run | Report, user: Any, text: str) -> Comment:
    """A comment on a run or a report. Raises Problem 409, 413 or 507 when no more may be kept."""
    quota.check_bytes(target.organisation)
    kind = "run" if isinstance(target, Run) else "report"
    if target.comments.count() >= MAX_COMMENTS:
        raise Problem(409, f"This {kind} has {MAX_COMMENTS} comments, which is the most. Delete one to add another.")
    title = _title(target)
    with transaction.atomic():
        comment = Comment.objects.create(organisation=target.organisation, author=user, text=text, **{kind: target})
        record(Action.COMMENT_ADDED, target.organisation, title, actor=user, **{kind: str(target.pk)})
        data = {
            "author": str(user),
            "text": text,
            "title": title,
            "url": f"{settings.PUBLIC_URL}{reverse(kind, args=[target.pk])}#comment-{comment.pk}",
        }
        for membership in mentioned(comment):
            announce(target.organisation_id, Kind.MENTIONED, lambda: {"comment": data}, membership.pk, alone=True)
    return comment


def delete(comment: Comment) -> None:
    """Removes a comment, and from inboxes what it said to those whom it mentions."""
    target = comment.run or comment.report
    assert target is not None, "the database holds every comment to one target"
    kind = "run" if comment.run else "report"
    mentions = Notice.objects.filter(organisation=comment.organisation_id, kind=Kind.MENTIONED)
    with transaction.atomic():
        mentions.filter(data__comment__url__endswith=f"#comment-{comment.pk}").delete()
        record(
            Action.COMMENT_DELETED,
            comment.organisation,
            _title(target),
            author=str(comment.author or ""),
            **{kind: str(target.pk)},
        )
        comment.delete()


def _title(target: Run | Report) -> str:
    return target.workload.name if isinstance(target, Run) else target.title


def mentioned(comment: Comment) -> list[Membership]:
    """The members whose name, address, or what stands before the address's @, follows an @; not the author."""
    members = Membership.objects.filter(organisation=comment.organisation_id).exclude(user=comment.author)
    return [member for member in members.select_related("user") if _mentions(comment.text, member.user)]


def _mentions(text: str, user: Any) -> bool:
    calls = filter(None, (user.name, user.email, user.email.partition("@")[0]))
    return any(re.search(rf"(?<!\w)@{re.escape(call)}(?![\w@]|\.\w)", text, re.IGNORECASE) for call in calls)
