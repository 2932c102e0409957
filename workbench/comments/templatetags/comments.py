"""The comments below a run or a report."""

from typing import Any

from django import template

from workbench.accounts.models import Membership
from workbench.runs.models import Run

register = template.Library()


@register.inclusion_tag("comments/comments.html", takes_context=True)
def comments(context: dict[str, Any], target: Any) -> dict[str, Any]:
    """The comments on a run or a report, and the form for the next."""
    members = Membership.objects.filter(organisation=target.organisation_id).select_related("user")
    return {
        "comments": target.comments.select_related("author"),
        "names": [str(member.user) for member in members[:30] if member.user != context["user"]],
        "address": "run-comment" if isinstance(target, Run) else "report-comment",
        "target": target,
        "user": context["user"],
        "may_admin": context.get("may_admin"),
        "csrf_token": context.get("csrf_token"),
    }
