"""The price book: dated, sourced GPU prices."""

from workers.documents.base import Basis, Document


class Price(Document):
    """What one GPU of a class costs: low, typical and high in USD per GPU-hour."""

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
