"""What the address of a list asks for and its page cannot do: a misspelt filter must not pass for one that works."""

from typing import Any

from django import forms
from django.db.models import QuerySet
from django.http import HttpRequest, QueryDict


def left_out(query: QueryDict, form: forms.Form) -> list[str]:
    """A sentence for each part of the address that filters nothing: it is no filter of the form, or its value is none.

    `page`, the number of the page, is no filter and is left to the list.
    """
    fields: dict[str, Any] = form.fields
    unknown = [name for name in query if name not in fields and name != "page"]
    sentences = [f"“{name[:60]}” is no filter of this list and is left out." for name in unknown]
    wrong = [(fields[name].label, query[name][:60]) for name in form.errors if name in fields]
    return sentences + [f"“{value}” is no value of the filter {label} and is left out." for label, value in wrong]


def ordered(rows: QuerySet[Any], request: HttpRequest, columns: dict[str, str]) -> QuerySet[Any]:
    """The rows by the column that the address names, the newest first among equals; as they come without one."""
    order = request.GET.get("sort", "")
    column = columns.get(order.removeprefix("-"))
    return rows.order_by(f"-{column}" if order.startswith("-") else column, "-created_at") if column else rows
