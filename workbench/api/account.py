"""The caller's own account in the public API, the audit log, and API tokens. A script first calls `/me`."""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from ninja import Field, Query, Router, Schema, Status

from workbench.accounts import tokens
from workbench.accounts.audit import exported
from workbench.accounts.models import ApiToken
from workbench.accounts.permissions import admin_required
from workbench.accounts.services import AccountError
from workbench.api.pagination import Page, PageQuery, page
from workbench.api.sentences import Problem
from workbench.audit.services import lines
from workbench.openapi import answers_file
from workbench.short_text import ShortText
from workers.documents.base import Document


class Me(Schema):
    """The caller, the organisation it acts for, and what it may do."""

    email: str
    organisation: str
    role: str
    scope: str


class TokenIn(Document):
    """A token to make."""

    name: ShortText = Field(min_length=1, max_length=80)
    scope: ApiToken.Scope = ApiToken.Scope.READ
    days: int | None = Field(90, ge=1, le=3650, description="how long it lives; null: until it is revoked")


class TokenOut(Schema):
    """A token without its secret. `last_used_at` is exact to the minute."""

    id: UUID
    name: str
    prefix: str
    owner: str
    scope: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None

    @staticmethod
    def resolve_owner(token: ApiToken) -> str:
        return token.user.email


class NewToken(TokenOut):
    """A token with its secret, which is not shown again."""

    secret: str


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


@router.get("/tokens", response=Page[TokenOut], summary="List API tokens")
def list_tokens(request: Any, query: Query[PageQuery]) -> dict[str, Any]:
    """The caller's own, an admin's organisation's; newest first, with those that ended."""
    return page(tokens.visible(request.user, request.membership), query)


@router.post("/tokens", response={201: NewToken}, summary="Make an API token")
def make_token(request: Any, response: HttpResponse, body: TokenIn) -> Any:
    """Of the caller's, in this organisation. Its secret is given once. A token makes none that outlives it."""
    response["Cache-Control"] = "no-store"
    try:
        if request.api_token:
            token, secret = tokens.issue_by_token(request.api_token, body.name, body.scope, body.days)
        else:
            token, secret = tokens.issue(request.organisation, request.user, **body.model_dump())
    except AccountError as error:
        raise Problem(422, error.sentence) from None
    token.secret = secret  # type: ignore[attr-defined]  # for this answer; it is no column
    return Status(201, token)


@router.delete("/tokens/{token_id}", response={204: None}, summary="Revoke an API token")
def revoke_token(request: Any, token_id: UUID) -> Status[None]:
    """At once; also the caller's own."""
    tokens.revoke(get_object_or_404(tokens.visible(request.user, request.membership), pk=token_id))
    return Status(204, None)
