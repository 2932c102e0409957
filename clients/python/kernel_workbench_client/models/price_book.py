from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

if TYPE_CHECKING:
    from ..models.price import Price


T = TypeVar("T", bound="PriceBook")


@_attrs_define
class PriceBook:
    """Prices as they were on `date` (ISO 8601), and where they come from.

    Attributes:
        name (str):
        date (str):
        source (str):
        prices (list[Price]):
    """

    name: str
    date: str
    source: str
    prices: list[Price]

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
        from ..models.price import Price  # noqa: PLC0415

        d = dict(src_dict)
        name = d.pop("name")

        date = d.pop("date")

        source = d.pop("source")

        prices = []
        _prices = d.pop("prices")
        for prices_item_data in _prices:
            prices_item = Price.from_dict(prices_item_data)

            prices.append(prices_item)

        price_book = cls(
            name=name,
            date=date,
            source=source,
            prices=prices,
        )

        return price_book
