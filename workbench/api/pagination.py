"""Pages of a list, newest first. A cursor marks the place, so that rows that are added later shift nothing."""

import base64
import binascii
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from django.core.exceptions import ValidationError
from django.db.models import Model, Q, QuerySet
from ninja import Field, Schema

from workbench.api.sentences import Problem

Item = TypeVar("Item")


class PageQuery(Schema):
    """The query parameters of every list."""

    cursor: str = Field("", description="`next` of the page before")
    limit: int = Field(25, ge=1, le=200)


class Page(Schema, Generic[Item]):
    """Some items, and the cursor of the next page (None on the last)."""

    items: list[Item]
    next: str | None = None


def encode(row: Model) -> str:
    """The cursor that stands after `row`."""
    position = [row.created_at.isoformat(), str(row.pk)]  # type: ignore[attr-defined]
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def _decode(cursor: str, model: type[Model]) -> tuple[datetime, Any]:
    try:
        created_at, key = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        return datetime.fromisoformat(created_at).astimezone(UTC), model._meta.pk.to_python(key)
    except (binascii.Error, ValueError, TypeError, OverflowError, RecursionError, ValidationError):
        reason = {"field": "cursor", "reason": "is not a cursor of this list; send `next` as it came"}
        raise Problem(422, f"cursor: {reason['reason']}", [reason]) from None


def page(
    rows: QuerySet[Any], query: PageQuery, shape: Callable[[Any], Any] | None = None, one_by_one: bool = False
) -> dict[str, Any]:
    """One page of `rows`, which need `created_at` and a primary key; `shape` maps each row. Raises Problem 422.

    `one_by_one`: rows are large, and each is given up once it has its shape.

    The endpoint's response schema reads the rows itself, so that `shape` must not make instances of that schema.
    """
    if query.cursor:
        created_at, key = _decode(query.cursor, rows.model)
        rows = rows.filter(Q(created_at__lt=created_at) | Q(created_at=created_at, pk__lt=key))
    newest = rows.order_by("-created_at", "-pk")[: query.limit + 1]
    items: list[Any] = []
    last: str | None = None
    for row in newest.iterator(chunk_size=10) if one_by_one else newest:
        if len(items) == query.limit:
            return {"items": items, "next": last}
        items.append(shape(row) if shape else row)
        last = encode(row)
    return {"items": items, "next": None}
