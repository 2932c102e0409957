"""The price book: dated, sourced GPU prices."""

from workers.documents.base import Basis, Document


class Price(Document):
    """The price of one GPU of a class: low, typical and high in USD per GPU-hour."""

    gpu_class: str
    name: str
    low: float
    typical: float
    high: float


class PriceBook(Document):
    """Prices as they were on `date` (ISO 8601), and where they come from."""

    name: str
    date: str
    source: str
    prices: list[Price]


class CostLine(Document):
    """One deployment's unit cost. `tokens_per_second` is per GPU while the SLA holds, or None if it never does."""

    label: str
    gpu: str
    usd_per_hour: float
    price_basis: Basis
    tokens_per_second: float | None
    speed_basis: Basis
    usd_per_mtok: float | None
    usd_per_mtok_at_duty: float | None
    holds_sla: bool | None = None
    note: str = ""


class Sensitivity(Document):
    """$/M tokens before and after at one GPU price."""

    usd_per_hour: float
    before: float | None
    after: float | None


def default_price_book() -> PriceBook:
    """Public on-demand and reserved prices as collected on 2026-11-20; a customer's own book replaces it."""
    collected = (
        ("h100", "NVIDIA H100", 1.99, 6.16),
        ("h200", "NVIDIA H200", 2.50, 7.00),
        ("b200", "NVIDIA B200", 3.75, 8.60),
        ("a100", "NVIDIA A100", 0.80, 3.00),
        ("l40s", "NVIDIA L40S", 0.79, 2.25),
    )
    return PriceBook(
        name="Public GPU prices 2026",
        date="2026-11-20",
        source=(
            "Lowest and highest public price per GPU-hour of cloud and GPU-rental price lists, 2026; "
            "typical is the geometric mean of the two. Replace it with your contract's prices."
        ),
        prices=[
            Price(gpu_class=gpu_class, name=name, low=low, typical=round((low * high) ** 0.5, 2), high=high)
            for gpu_class, name, low, high in collected
        ],
    )
