"""The form of the price book."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from django import forms
from django.utils import timezone

from kernels.hardware import GPUS
from workbench.prices.schemas import MAX_PRICES, MAX_USD, MIN_USD, NAME_LENGTH, SOURCE_LENGTH
from workbench.short_text import ShortTextField
from workers.documents.prices import Price, PriceBook

COLUMNS = ("low", "typical", "high")
KNOWN = {gpu.gpu_class: gpu.name for gpu in GPUS.values() if gpu.gpu_class != "cpu"}
"""The names of the classes that the library knows."""


class PriceBookForm(forms.Form):
    """A dated price book: one row of low, typical and high for each GPU class; an empty row leaves the class out.

    The classes are those that the library knows, those of `book`, and those `asked` for, names by class.
    """

    name = ShortTextField(max_length=NAME_LENGTH)
    date = forms.DateField(
        label="Prices as of", widget=forms.DateInput(attrs={"type": "date"}), initial=lambda: timezone.now().date()
    )
    source = ShortTextField(
        max_length=SOURCE_LENGTH, help_text="Where the prices come from: a contract, a quote, a list."
    )

    def __init__(self, *args: Any, book: PriceBook, names: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        price_of = {price.gpu_class: price for price in book.prices}
        self.names = KNOWN | {price.gpu_class: price.name for price in book.prices} | dict(names)
        for gpu_class, name in self.names.items():
            for column in COLUMNS:
                self.fields[_field(gpu_class, column)] = forms.FloatField(
                    label=f"{name}, {column}",
                    required=False,
                    min_value=MIN_USD,
                    max_value=MAX_USD,
                    initial=getattr(price_of.get(gpu_class), column, None),
                    widget=forms.NumberInput(attrs={"step": "any"}),
                )

    def rows(self) -> list[tuple[str, list[forms.BoundField]]]:
        """(GPU, its three fields) for the table of inputs."""
        return [(name, [self[_field(key, column)] for column in COLUMNS]) for key, name in self.names.items()]

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        prices = []
        for gpu_class, name in self.names.items():
            given = [data.get(_field(gpu_class, column)) for column in COLUMNS]
            values = [value for value in given if value is not None]
            wrong = any(_field(gpu_class, column) in self.errors for column in COLUMNS)
            if wrong or not values:
                continue
            if len(values) < len(COLUMNS):
                self.add_error(_field(gpu_class, "low"), f"{name} needs low, typical and high, or none of them.")
            elif values != sorted(values):
                self.add_error(_field(gpu_class, "low"), f"{name}: low, typical and high must not fall.")
            else:
                low, typical, high = values
                prices.append(Price(gpu_class=gpu_class, name=name, low=low, typical=typical, high=high))
        if not prices and not self.errors:
            self.add_error(None, "A price book needs at least one price.")
        if len(prices) > MAX_PRICES:
            self.add_error(None, f"A price book has at most {MAX_PRICES} prices.")
        data["prices"] = prices
        return data

    def book(self) -> PriceBook:
        """The document of a valid form."""
        data = self.cleaned_data
        return PriceBook(name=data["name"], date=data["date"].isoformat(), source=data["source"], prices=data["prices"])


def _field(gpu_class: str, column: str) -> str:
    return f"{quote(gpu_class, safe='')}_{column}"
