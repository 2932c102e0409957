"""The API of the caller's own account. A script calls it first, to try its token."""

from typing import Any

from django.http import HttpResponse
from ninja import Query, Router

from workbench.accounts.audit import exported
from workbench.accounts.permissions import admin_required
from workbench.accounts.schemas import Me
from workbench.audit.services import lines
from workbench.openapi import answers_file

router = Router(tags=["account"])


@router.get("/me", response=Me, summary="Who this token or login speaks for")
def me(request: Any) -> dict[str, str]:
    """The caller's email, organisation and role, and the token's scope (`write` for a login)."""
    token = request.api_token
    return {
        "email": request.user.email,
        "organisation": request.organisation.name,
        "role": request.membership.role,
        "scope": token.scope if token else "write",
    }


@router.get("/audit", summary="Export the audit log", openapi_extra=answers_file("application/x-ndjson"))
@admin_required
def export_audit_log(
    request: Any, after: int = Query(0, ge=0), limit: int = Query(1000, ge=1, le=10_000)
) -> HttpResponse:
    """Who did what, oldest first: a JSON object a line. Ask again with `after` = the last `id` until nothing comes."""
    entries = exported(request.organisation, after, limit)
    return HttpResponse("".join(lines(entries)), content_type="application/x-ndjson")
