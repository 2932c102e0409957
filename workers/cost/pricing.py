"""The price of a GPU-hour from the price book, and the cost of a million tokens.

$ / M tokens = $ per GPU-hour / (tokens per second per GPU · 3600) · 10⁶. The whole GPU is charged to the tokens that
are counted, so prices of input and output tokens are never added.
"""

from dataclasses import dataclass

from workers.documents.base import Basis
from workers.documents.gpu_class import single_gpu_class
from workers.documents.prices import PriceBook

UNIT_PRICE = 1.0
"""USD per hour assumed for a device that the price book does not know: every cost then scales with the real price."""


def usd_per_mtok(usd_per_hour: float, tokens_per_second: float, duty_cycle: float = 1.0) -> float:
    """USD per million tokens of a GPU that serves `tokens_per_second` for `duty_cycle` of the hour it is paid for."""
    return usd_per_hour / (tokens_per_second * 3600 * duty_cycle) * 1e6


@dataclass(frozen=True)
class GpuPrice:
    """USD per GPU-hour with the range to try; `basis` is modelled where the price book has no such GPU."""

    typical: float
    low: float
    high: float
    basis: Basis
    note: str = ""


def gpu_price(book: PriceBook, gpu_class: str) -> GpuPrice:
    """The book's price of one GPU of a class, or the unit price with a sentence that says so."""
    gpu_class = single_gpu_class(gpu_class)
    for price in book.prices:
        if price.gpu_class == gpu_class:
            return GpuPrice(price.typical, price.low, price.high, "stated")
    note = (
        f"The price book has no price for {gpu_class}; costs are modelled at {UNIT_PRICE:.2f} USD per hour and scale "
        "with the price you pay."
    )
    return GpuPrice(UNIT_PRICE, UNIT_PRICE / 2, UNIT_PRICE * 2, "modelled", note)


def hourly_price(book: PriceBook, gpu_class: str, gpus: int = 1) -> float | None:
    """The book's typical USD per hour of `gpus` GPUs of a class, or None where it has no price of the class."""
    price = gpu_price(book, gpu_class)
    return price.typical * gpus if price.basis == "stated" else None
