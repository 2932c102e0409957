"""What serving costs by the unit, before and after, and what a fleet for a stated demand costs. USD throughout.

Formulas: `workers/cost/`; definitions: `docs/method.md`, under the heading of each key.
"""

from typing import Literal

from pydantic import Field

from workers.documents.base import Basis, Document
from workers.documents.measurement import Energy, Interval
from workers.documents.model import CountedUnit

CostKey = Literal[
    "output-tokens", "input-tokens", "all-tokens", "counted", "thousand-requests", "conversation-hour", "energy"
]


HIGHEST = "the highest load that holds, "
"""So a load that a search found begins in words."""


class ServedLoad(Document):
    """What one server serves at one load, per second, with 95 % intervals, and what an hour of it costs in USD.

    `users`: requests that are open at once. `holds`: whether the SLA does at this load; `highest`: whether a search
    found no higher one. `ttft_ms` and `tpot_ms` are medians; None where the model has none. `usd_per_hour` is that of
    all its `gpus`; None where the hardware is not ours.
    """

    load: str = Field(description="the load in words")
    users: int = Field(ge=1)
    holds: bool | None
    highest: bool = False
    server: str = Field(default="", description="what served it, of a load that was searched")
    gpu: str = ""
    gpus: int = Field(default=1, ge=1)
    usd_per_hour: float | None
    price_basis: Basis = "stated"
    per_second: Interval = Field(description="of what the model gives, such as output tokens")
    read_per_second: Interval | None = Field(default=None, description="of the prompts' tokens, of a model that writes")
    requests_per_second: Interval
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    energy: Energy | None = None


class UnitCost(Document):
    """One price, in USD (of energy, in joules), before and after; None where it is not known or does not apply."""

    key: CostKey
    before: Interval | None
    after: Interval | None
    basis: Basis = "modelled"


class PricePoint(Document):
    """USD per thousand requests with one assumption changed: `what` is price, duty cycle, lengths or load."""

    what: Literal["price", "duty cycle", "lengths", "load"]
    value: str = Field(description="the changed assumption in words")
    before: float | None
    after: float | None
    basis: Basis


class Demand(Document):
    """What a fleet is asked for, as stated: users at once or requests per second, and the terms it is paid by.

    `spare`: share of each GPU's capacity that is left free. `hours_per_day`: hours a day that the GPUs are paid for.
    `duty_cycle`: share of those hours in which the demand is there. `cycle_s`: seconds from a user's request to the
    next; None where users always wait for an answer.
    """

    users: int | None = Field(default=None, ge=1, le=10**9)
    cycle_s: float | None = Field(default=None, gt=0, le=86_400)
    requests_per_second: float | None = Field(default=None, gt=0, le=10**9)
    spare: float = Field(default=0.3, ge=0, le=0.9)
    hours_per_day: float = Field(default=24, gt=0, le=24)
    duty_cycle: float = Field(default=1, gt=0, le=1)
    fee: float | None = Field(default=None, gt=0, le=10**12, description="USD, paid once")


class Fleet(Document):
    """GPUs for a demand on one side, and what they cost in USD; intervals follow from that of the throughput."""

    gpus: Interval
    month: Interval
    year: Interval
    thousand_requests: Interval = Field(description="the month's bill by the requests that the demand has in it")
    user_month: Interval | None = Field(default=None, description="the month's bill by the users at once")


class FleetComparison(Document):
    """A demand served before and after. `break_even_months` pays the fee; `never` where nothing is sure to be saved."""

    demand: Demand
    before: Fleet
    after: Fleet
    saved_month: Interval
    saved_year: Interval
    break_even_months: float | None = None
    break_even_latest: float | None = Field(default=None, description="at the least saving of the interval")
    sentence: str


class StatedFleet(Document):
    """What the demand of the workload itself takes on each side; None where no load is shown to hold every promise."""

    demand: Demand
    before: Fleet | None
    after: Fleet | None
    sentence: str


class LoadPrice(Document):
    """What one side costs at one load, whether or not the promises hold there.

    `level` is the load: users of a closed loop, requests per second, or the speed of a recording. `value` is the first
    promise's metric at its percentile; None where no request gave it.
    """

    level: float
    load: str = Field(description="the load in words")
    value: float | None
    holds: bool | None
    per_second: Interval = Field(description="output tokens")
    usd_per_mtok: Interval = Field(description="USD per million output tokens")


class AnyLoadRow(Document):
    """Before at one load; after at the same load, and at the cheapest of its loads that is no slower than before here.

    Either of after is None where no such load was measured.
    """

    before: LoadPrice
    same: LoadPrice | None
    no_slower: LoadPrice | None


class AnyLoad(Document):
    """Prices at each load of before, whatever the promise; slower is meant by the first promise, `promise`.

    `most_before` and `most_after` are the loads that gave the most tokens per second.
    """

    promise: str
    unit: str
    rows: list[AnyLoadRow]
    most_before: LoadPrice
    most_after: LoadPrice
    sentence: str


class SameLoad(Document):
    """Both sides at the highest load that was measured on both, whether or not a promise holds there.

    `usd_before` and `usd_after` are USD for a million of what the model gives.
    """

    before: ServedLoad
    after: ServedLoad
    usd_before: Interval
    usd_after: Interval

    @property
    def ratio(self) -> float:
        """How many times cheaper after is."""
        return self.usd_before.value / self.usd_after.value

    @property
    def where(self) -> str:
        """The load, and that the price of an hour is assumed where the price book has none."""
        stated = self.before.price_basis == self.after.price_basis == "stated"
        return self.before.load if stated else f"{self.before.load}; the price of an hour is assumed"


class UnitEconomics(Document):
    """Unit costs before and after of servers that are busy all the hour, and what moves them.

    A side is None where no load is shown to hold the SLA.
    """

    duty_cycle: float
    prompt_tokens: int
    output_tokens: int
    generates: bool
    counted: CountedUnit
    before: ServedLoad | None
    after: ServedLoad | None
    costs: list[UnitCost]
    moves: list[PricePoint] = []
    stated: StatedFleet | None = Field(default=None, description="of the demand that the workload states, if any")
