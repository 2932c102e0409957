"""What a new organisation has yet to do, until it is done."""

from typing import Any, NamedTuple

from django.db.models import Exists, OuterRef
from django.urls import reverse

from workbench.accounts.models import Invitation, Membership
from workbench.accounts.permissions import can_admin, can_review, can_submit
from workbench.reports.models import Report
from workbench.runs.models import Run


class FirstStep(NamedTuple):
    """A step in words, where it is done, and whether it is."""

    words: str
    address: str
    done: bool


def first_steps(membership: Membership | None) -> list[FirstStep]:
    """The steps that the member's role allows, by one query; none once all are done or the member closed the list."""
    if membership is None or membership.start_hidden:
        return []
    own: dict[str, Any] = {"organisation": OuterRef("organisation")}
    done = Membership.objects.filter(pk=membership.pk).values_list(
        Exists(Run.objects.filter(**own)),
        Exists(Run.objects.filter(**own, state=Run.State.DONE)),
        Exists(Report.objects.filter(**own)),
        Exists(Report.objects.filter(**own, state=Report.State.PUBLISHED)),
        Exists(Invitation.objects.filter(**own)),
    )[0]
    workloads, reports, members = reverse("workload-list"), reverse("report-list"), reverse("members")
    steps = [
        (can_submit, "Start a run: the sample, or your own model", reverse("workload-new")),
        (can_submit, "Read the verdict of a finished run", workloads),
        (can_submit, "Freeze a result as a report", workloads),
        (can_review, "Review and publish a report", reports),
        (can_admin, "Invite a colleague", members),
    ]
    known = [
        FirstStep(words, address, is_done)
        for (may, words, address), is_done in zip(steps, done, strict=True)
        if may(membership)
    ]
    return known if not all(step.done for step in known) else []
