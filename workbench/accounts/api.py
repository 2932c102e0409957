"""The API of the caller's own account. A script calls it first, to try its token."""

from typing import Any

from ninja import Router

from workbench.accounts.schemas import Me

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
