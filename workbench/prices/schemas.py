"""What a new price book may hold, by the form and by the API. Books that are kept are read without these limits."""

from datetime import date
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from workbench.short_text import ShortText
from workers.documents.prices import Price, PriceBook

MIN_USD, MAX_USD = 0.001, 10_000
NAME_LENGTH, SOURCE_LENGTH, MAX_PRICES = 120, 500, 32
Usd = Annotated[float, Field(ge=MIN_USD, le=MAX_USD)]


class NewPrice(Price):
    """USD per GPU-hour of a class: low, typical and high do not fall."""

    gpu_class: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,79}$")
    name: ShortText = Field(min_length=1, max_length=NAME_LENGTH)
    low: Usd
    typical: Usd
    high: Usd

    @model_validator(mode="after")
    def _rises(self) -> Self:
        if not self.low <= self.typical <= self.high:
            raise ValueError("low, typical and high must not fall")
        return self


class NewPriceBook(PriceBook):
    """Prices as they are on `date` (ISO 8601, such as 2026-11-20), where they come from, and one price a class."""

    name: ShortText = Field(min_length=1, max_length=NAME_LENGTH)
    source: ShortText = Field(min_length=1, max_length=SOURCE_LENGTH)
    prices: list[NewPrice] = Field(min_length=1, max_length=MAX_PRICES)  # type: ignore[assignment]

    @field_validator("date")
    @classmethod
    def _is_a_date(cls, value: str) -> str:
        try:
            return date.fromisoformat(value).isoformat()
        except ValueError:
            raise ValueError("should be a date such as 2026-11-20") from None

    @model_validator(mode="after")
    def _names_each_class_once(self) -> Self:
        classes = [price.gpu_class for price in self.prices]
        twice = next((name for name in classes if classes.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"prices: {twice} is there twice")
        return self
