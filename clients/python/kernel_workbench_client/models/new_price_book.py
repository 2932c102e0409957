from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

if TYPE_CHECKING:
    from ..models.new_price import NewPrice


T = TypeVar("T", bound="NewPriceBook")


@_attrs_define
class NewPriceBook:
    """Prices as they are on `date` (ISO 8601, such as 2026-11-20), where they come from, and one price a class.

    Attributes:
        name (str):
        date (str):
        source (str):
        prices (list[NewPrice]):
    """

    name: str
    date: str
    source: str
    prices: list[NewPrice]

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        date = self.date

        source = self.source

        prices = []
        for prices_item_data in self.prices:
            prices_item = prices_item_data.to_dict()
            prices.append(prices_item)

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "name": name,
                "date": date,
                "source": source,
                "prices": prices,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.new_price import NewPrice  # noqa: PLC0415

        d = dict(src_dict)
        name = d.pop("name")

        date = d.pop("date")

        source = d.pop("source")

        prices = []
        _prices = d.pop("prices")
        for prices_item_data in _prices:
            prices_item = NewPrice.from_dict(prices_item_data)

            prices.append(prices_item)

        new_price_book = cls(
            name=name,
            date=date,
            source=source,
            prices=prices,
        )

        return new_price_book
