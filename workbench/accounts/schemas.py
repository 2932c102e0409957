"""The API's schemas of the caller and of tokens."""

from datetime import datetime
from uuid import UUID

from ninja import Field, Schema

from workbench.accounts.models import ApiToken
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
