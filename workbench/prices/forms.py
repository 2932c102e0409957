"""The form of the price book."""

from typing import Any

from django import forms
from django.utils import timezone

from kernels.hardware import GPUS
from workers.documents.prices import Price, PriceBook

COLUMNS = ("low", "typical", "high")
CLASSES = [gpu for gpu in GPUS.values() if gpu.gpu_class != "cpu"]


class PriceBookForm(forms.Form):
    """A dated price book: one row of low, typical and high for each GPU class; an empty row leaves the class out."""

    name = forms.CharField(max_length=120)
    date = forms.DateField(
        label="Prices as of", widget=forms.DateInput(attrs={"type": "date"}), initial=lambda: timezone.now().date()
    )
    source = forms.CharField(max_length=500, help_text="Where the prices come from: a contract, a quote, a list.")

    def __init__(self, *args: Any, book: PriceBook | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        known = {price.gpu_class: price for price in book.prices} if book else {}
        for gpu in CLASSES:
            for column in COLUMNS:
                self.fields[f"{gpu.gpu_class}_{column}"] = forms.FloatField(
                    label=f"{gpu.name}, {column}",
                    required=False,
                    min_value=0.001,
                    max_value=10_000,
                    initial=getattr(known.get(gpu.gpu_class), column, None),
                    widget=forms.NumberInput(attrs={"step": "any"}),
                )

    def rows(self) -> list[tuple[str, list[forms.BoundField]]]:
        """(GPU, its three fields) for the table of inputs."""
        return [(gpu.name, [self[f"{gpu.gpu_class}_{column}"] for column in COLUMNS]) for gpu in CLASSES]

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        prices = []
        for gpu in CLASSES:
            given = [data.get(f"{gpu.gpu_class}_{column}") for column in COLUMNS]
            values = [value for value in given if value is not None]
            if not values:
                continue
            if len(values) < len(COLUMNS):
                self.add_error(f"{gpu.gpu_class}_low", f"{gpu.name} needs low, typical and high, or none of them.")
            elif values != sorted(values):
                self.add_error(f"{gpu.gpu_class}_low", f"{gpu.name}: low, typical and high must not fall.")
            else:
                low, typical, high = values
                prices.append(Price(gpu_class=gpu.gpu_class, name=gpu.name, low=low, typical=typical, high=high))
        if not prices and not self.errors:
            self.add_error(None, "A price book needs at least one price.")
        data["prices"] = prices
        return data

    def book(self) -> PriceBook:
        """The document of a valid form."""
        data = self.cleaned_data
        return PriceBook(name=data["name"], date=data["date"].isoformat(), source=data["source"], prices=data["prices"])
