"""The order of a list in pages, which its address names: `?sort=title`, or `?sort=-title` for the other way round."""

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest


def ordered(rows: QuerySet[Any], request: HttpRequest, columns: dict[str, str]) -> QuerySet[Any]:
    """The rows by the column that the address names, the newest first among equals; as they come without one."""
    order = request.GET.get("sort", "")
    column = columns.get(order.removeprefix("-"))
    return rows.order_by(f"-{column}" if order.startswith("-") else column, "-created_at") if column else rows
