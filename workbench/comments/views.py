"""Adding a comment to a run or a report, and removing one."""

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST

from workbench.accounts.permissions import can_admin
from workbench.api.sentences import Problem
from workbench.comments import services
from workbench.comments.models import Comment
from workbench.reports.views import get_report
from workbench.runs.views.runs import get_run

MAX_TEXT_LENGTH = 4000


class CommentForm(forms.Form):
    """A comment."""

    text = forms.CharField(max_length=MAX_TEXT_LENGTH)


@require_POST
def on_run(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """Adds a comment to a run."""
    return _add(request, "run", get_run(request, run_id))


@require_POST
def on_report(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """Adds a comment to a report."""
    return _add(request, "report", get_report(request, report_id))


def _add(request: HttpRequest, page: str, target: Any) -> HttpResponse:
    form = CommentForm(request.POST)
    if not form.is_valid():
        messages.error(request, f"The comment was not kept. {form.errors['text'][0]}")
        return redirect(page, target.pk)
    try:
        comment = services.add(target, request.user, form.cleaned_data["text"])
    except Problem as error:
        messages.error(request, f"The comment was not kept. {error}")
        return redirect(page, target.pk)
    response = redirect(page, target.pk)
    response["Location"] += f"#comment-{comment.pk}"
    return response


@require_POST
def delete(request: Any, comment_id: UUID) -> HttpResponse:
    """Removes a comment, by its author or an admin."""
    comment = get_object_or_404(Comment.objects.for_user(request.user), pk=comment_id)
    if comment.author != request.user and not can_admin(request.membership):
        raise PermissionDenied("Only its author or an admin removes a comment.")
    services.delete(comment)
    return redirect("run", comment.run_id) if comment.run_id else redirect("report", comment.report_id)
