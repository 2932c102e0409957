"""The page of the audit log."""

from typing import Any

from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from workbench.accounts.audit import AuditFilter
from workbench.accounts.permissions import admin_required
from workbench.audit.models import Entry
from workbench.pages.filters import left_out

PAGE_SIZE = 50


@require_safe
@admin_required
def audit_log(request: Any) -> HttpResponse:
    """Who did what in the organisation, newest first."""
    form = AuditFilter(request.GET)
    valid = form.is_valid()
    entries = form.applied(Entry.objects.of(request.organisation)) if valid else Entry.objects.none()
    page = Paginator(entries, PAGE_SIZE).get_page(request.GET.get("page"))
    context = {"form": form, "page": page, "left_out": left_out(request.GET, form) if valid else []}
    return render(request, "accounts/audit.html", context, status=200 if valid else 422)
