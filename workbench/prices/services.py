"""The price book of an organisation."""

from typing import Any

from django.db import transaction

from workbench.api.quota import check_bytes
from workbench.audit.models import Action
from workbench.audit.services import record
from workbench.prices.models import PriceBookRow
from workers.documents.prices import PriceBook, default_price_book

KEPT_BOOKS = 100
"""The most books of an organisation that stay as history."""


def price_book(organisation: Any) -> PriceBook:
    """The newest book of the organisation, else the newest default one, else the public prices that ship with us."""
    for owner in (organisation, None):
        row = PriceBookRow.objects.filter(organisation=owner).first()
        if row is not None:
            return row.book
    return default_price_book()


def add_price_book(organisation: Any, user: Any, book: PriceBook) -> PriceBookRow:
    """Keep a new dated book; older ones stay as history, and reports keep the copy they were made with.

    Raises Problem 413 or 507 when the organisation may keep no more.
    """
    check_bytes(organisation)
    before = price_book(organisation)
    with transaction.atomic():
        row = PriceBookRow.objects.create(organisation=organisation, document=book.model_dump(), created_by=user)
        books = PriceBookRow.objects.filter(organisation=organisation)
        books.filter(pk__in=list(books.values_list("pk", flat=True)[KEPT_BOOKS:])).delete()
        record(Action.PRICES_CHANGED, organisation, row, actor=user, **_difference(before, book))
    return row


def _difference(before: PriceBook, after: PriceBook) -> dict[str, dict[str, Any]]:
    """What `before` and `after` have that the other one has not: low, typical and high by class."""
    old, new = _flat(before), _flat(after)
    return {
        "before": {key: value for key, value in old.items() if new.get(key) != value},
        "after": {key: value for key, value in new.items() if old.get(key) != value},
    }


def _flat(book: PriceBook) -> dict[str, Any]:
    prices = {f"prices.{price.gpu_class}": [price.low, price.typical, price.high] for price in book.prices}
    return book.model_dump(include={"name", "date", "source"}) | prices
