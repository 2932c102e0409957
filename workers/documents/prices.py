"""The price book, dated and sourced, and what a million tokens cost by it."""

from typing import Literal

from pydantic import Field

from workers.documents.base import Basis, Document
from workers.documents.model import CountedUnit
from workers.documents.money import HIGHEST, AnyLoad, SameLoad, UnitEconomics


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
    """One deployment's unit cost. `tokens_per_second` is of what is paid for by the hour, one GPU unless `gpu` or a
    note says otherwise, while the SLA holds, or None if it never does. `usd_per_hour` is None where nobody knows it."""

    label: str
    gpu: str
    usd_per_hour: float | None
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


class PriceResult(Document):
    """What the price stage found."""

    book: PriceBook
    lines: list[CostLine]
    before_after_ratio: float | None = Field(
        description="of the rates, after over before: tokens per dollar at one price; null at one request at a time"
    )
    ratio_basis: Basis = "measured"
    present_ratio: float | None = None
    present_speed_ratio: float | None = Field(default=None, description="of present_ratio the part of the speed")
    present_speed: Literal["latency", "throughput"] = Field(
        default="latency", description="what present_speed_ratio compares"
    )
    present_price_ratio: float | None = Field(
        default=None, description="of present_ratio the part of the prices of a GPU-hour"
    )
    at_once: int | None = Field(default=None, description="requests served together when the rates were measured")
    highest: bool = Field(default=False, description="whether at_once is the highest load after that holds")
    highest_load: str = Field(
        default="", description="that load in words, such as `the highest load that holds, 12.5 requests per second`"
    )
    duty_cycle: float
    sensitivity: list[Sensitivity]
    counted: CountedUnit = Field(default="tokens", description="what the rates and the prices of a million count")
    economics: UnitEconomics | None = Field(default=None, description="unit costs, null in documents before them")
    any_load: AnyLoad | None = Field(
        default=None, description="prices at each load, where both sides were put under it"
    )
    same_load: SameLoad | None = Field(default=None, description="both prices at one load, promise or not")
    arrangement: str = Field(
        default="", description="tensor parallelism or replicas: what keeps the promise cheapest, by predictions"
    )
    sentence: str

    @property
    def load(self) -> str:
        """The load that the prices stand at, in words; "" in documents that do not say."""
        if self.at_once is None:
            return ""
        words = "one request at a time" if self.at_once == 1 else f"{self.at_once:,} requests at once"
        return self.highest_load or (f"{HIGHEST}{words}" if self.highest else words)

    @property
    def loads(self) -> str:
        """As `load`, of both sides where the highest load that holds before is another than after."""
        sides = (self.economics.before, self.economics.after) if self.economics else (None, None)
        before, after = (side.load if side and side.highest else self.load for side in sides)
        if before == after:
            return self.load
        one, two = before.removeprefix(HIGHEST), after.removeprefix(HIGHEST)
        return f"the highest loads that hold, {one} before and {two} after"


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
