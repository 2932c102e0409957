"""The API's schema of the caller."""

from ninja import Schema


class Me(Schema):
    """The caller, the organisation it acts for, and what it may do."""

    email: str
    organisation: str
    role: str
    scope: str
