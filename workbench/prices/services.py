"""The price book of an organisation."""

from typing import Any

from django.db import transaction

from workbench.audit.models import Action
from workbench.audit.services import record
from workbench.prices.models import PriceBookRow
from workers.documents.prices import PriceBook, default_price_book


def price_book(organisation: Any) -> PriceBook:
    """The newest book of the organisation, else the newest default one, else the public prices that ship with us."""
    for owner in (organisation, None):
        row = PriceBookRow.objects.filter(organisation=owner).first()
        if row is not None:
            return row.book
    return default_price_book()


def add_price_book(organisation: Any, user: Any, book: PriceBook) -> PriceBookRow:
    """Keep a new dated book; older ones stay as history, and reports keep the copy they were made with."""
    before = price_book(organisation)
    with transaction.atomic():
        row = PriceBookRow.objects.create(organisation=organisation, document=book.model_dump(), created_by=user)
        record(Action.PRICES_CHANGED, organisation, row, actor=user, before=before.model_dump(), after=row.document)
    return row
