"""What a fleet for a stated demand costs: the form, and the answer from a run's unit economics."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django import forms

from workers.charts.economics import amount
from workers.cost import assumptions, fleet
from workers.documents.measurement import Interval
from workers.documents.money import Demand, Fleet, FleetComparison, ServedLoad, StatedFleet, UnitEconomics
from workers.documents.traffic import LONGEST_OUTPUT, LONGEST_PROMPT
from workers.wording.text import MISSING, percent, plain

MONEY = re.compile(r"(?:USD|\$)?\s*(\d[\d,]*(?:\.\d+)?|\.\d+)\s*(?:USD|\$)?", re.IGNORECASE)
MAX_NUMBER = 10**9
IDLE = 0.1
"""Below this share of the capacity that is paid for, the page says that most of it waits."""


class MoneyField(forms.CharField):
    """An amount in USD: `4.18`, `$4.18`, `1,250 USD`."""

    def __init__(self, what: str, maximum: float, **kwargs: Any) -> None:
        super().__init__(required=False, max_length=40, **kwargs)
        self.what, self.most = what, maximum

    def clean(self, value: Any) -> float | None:
        written = super().clean(value).strip()
        if not written:
            return None
        match = MONEY.fullmatch(written)
        if match is None:
            if re.search(r"\d", written) and re.search(r"[^\d\s.,+-]", written):
                raise forms.ValidationError(f"{self.what} is taken in USD; convert “{written}” first.")
            raise forms.ValidationError(f"“{written}” is no amount of money; write a number above 0, such as 4.18.")
        usd = float(match[1].replace(",", ""))
        if not 0 < usd <= self.most:
            raise forms.ValidationError(f"{self.what} is above 0 and at most {self.most:,.0f} USD.")
        return usd


def _number(label: str, what: str, low: float, high: float, integer: bool = False) -> Any:
    """A number field. Every error of it is the same sentence: what it takes."""
    kind: Any = forms.IntegerField if integer else forms.FloatField
    sentence = f"{what} from {plain(low)} to {plain(high, 12)}."
    errors = {code: sentence for code in ("invalid", "min_value", "max_value")}
    widget = forms.NumberInput(attrs={"step": "1" if integer else "any"})
    return kind(label=label, min_value=low, max_value=high, required=False, error_messages=errors, widget=widget)


class FleetForm(forms.Form):
    """A demand and the terms it is served by; what is left empty is as measured, stated or a default."""

    users = _number("Users at once", "Users at once are a whole number", 1, MAX_NUMBER, integer=True)
    cycle_s = _number("Seconds between requests", "A user's cycle is a number of seconds", 0.001, 86_400)
    requests_per_second = _number("Requests per second", "Requests per second are a number", 0.001, MAX_NUMBER)
    usd_per_hour = MoneyField("A price of a GPU-hour", 10_000, label="USD per GPU-hour")
    fee = MoneyField("A fee", 10**12, label="Fee, USD, once")
    hours_per_day = _number("Hours a day", "Hours a day are a number", 0.1, 24)
    duty = _number("Duty cycle, %", "A duty cycle is a percentage of the paid hours,", 0.1, 100)
    spare = _number("Spare capacity, %", "Spare capacity is a percentage of each GPU,", 0, 90)
    prompt_tokens = _number("Prompt tokens", "A prompt has a whole number of tokens", 1, LONGEST_PROMPT, integer=True)
    output_tokens = _number("Output tokens", "An answer has a whole number of tokens", 1, LONGEST_OUTPUT, integer=True)

    def __init__(self, economics: UnitEconomics, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        usd = economics.after.usd_per_hour if economics.after else None
        defaults = {
            "usd_per_hour": f"{usd / economics.after.gpus:.2f}" if usd and economics.after else "",
            "cycle_s": "always waiting",
            "hours_per_day": "24",
            "duty": f"{100 * economics.duty_cycle:g}",
            "spare": "30",
            "prompt_tokens": str(economics.prompt_tokens),
            "output_tokens": str(economics.output_tokens),
        }
        for name, value in defaults.items():
            self.fields[name].widget.attrs["placeholder"] = value
        if not economics.generates:
            del self.fields["prompt_tokens"], self.fields["output_tokens"]

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if not self.errors and not data.get("users") and not data.get("requests_per_second"):
            self.add_error(None, "Say how many users there are at once, or how many requests per second.")
        return data


def demanded(stated: StatedFleet | None) -> dict[str, str] | None:
    """The form's fields for the demand that the workload states; None where it states none."""
    if stated is None:
        return None
    demand = stated.demand
    values = {"users": demand.users, "requests_per_second": demand.requests_per_second}
    return {name: f"{value:.12g}" for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class FleetRow:
    """One line of the answer: its definition's anchor, and both sides in words."""

    title: str
    anchor: str
    before: str
    after: str


@dataclass(frozen=True)
class FleetAnswer:
    """The fleets of both sides in words, and sentences about them."""

    rows: list[FleetRow]
    sentences: list[str]


def answer(economics: UnitEconomics, data: dict[str, Any], same_load: bool) -> FleetAnswer:
    """The fleets for a cleaned form; `same_load`: both sides stand at one load, promise or not.

    Raises ValueError where the lengths cannot be modelled.
    """
    stated = {name: value for name, value in data.items() if value is not None}
    if "usd_per_hour" in stated:
        economics = assumptions.at_price(economics, stated["usd_per_hour"])
    lengths = stated.get("prompt_tokens", economics.prompt_tokens), stated.get("output_tokens", economics.output_tokens)
    changed = economics.generates and lengths != (economics.prompt_tokens, economics.output_tokens)
    if changed:
        economics = assumptions.at_lengths(economics, *lengths)
    demand = Demand(
        users=stated.get("users"),
        cycle_s=stated.get("cycle_s"),
        requests_per_second=stated.get("requests_per_second"),
        spare=stated.get("spare", 30) / 100,
        hours_per_day=stated.get("hours_per_day", 24),
        duty_cycle=stated["duty"] / 100 if "duty" in stated else economics.duty_cycle,
        fee=stated.get("fee"),
    )
    notes = []
    if same_load and economics.before and demand.users and not demand.cycle_s:
        demand = fleet.demand_of_before(demand, economics.before)
        notes.append("Each user is assumed to send as many requests as before.")
    if changed:
        notes.append("Other lengths than those measured are modelled from the medians of TTFT and TPOT.")
    sides = (economics.before, economics.after)
    fleets = [fleet.fleet(demand, side) if side and side.usd_per_hour is not None else None for side in sides]
    rows, idle = _rows(*fleets, at_most=not _searched(economics)), _usage(demand, sides, fleets)
    if all(fleets):
        assert economics.before is not None
        assert economics.after is not None
        compared = fleet.compare(demand, economics.before, economics.after)
        sentences = [compared.sentence, *_outside(economics), *idle.sentences, *notes]
        return FleetAnswer([*rows, *idle.rows, *_savings_sentence(compared)], sentences)
    unknown = "One side has no price, since no load of it keeps the promise or nobody knows what its hour costs."
    return FleetAnswer([*rows, *idle.rows], [unknown, *_outside(economics), *idle.sentences, *notes])


def _outside(economics: UnitEconomics) -> list[str]:
    """A sentence for each side that misses a promise at its load, or is not shown to hold them all."""
    missed = "misses a promise at this load: its GPUs carry the requests, but not within the SLA."
    words = {False: missed, None: "is not shown to keep every promise at this load."}
    sides = (("Before", economics.before), ("After", economics.after))
    return [f"{name} {words[side.holds]}" for name, side in sides if side is not None and not side.holds]


def _searched(economics: UnitEconomics) -> bool:
    """Whether the sides stand at the highest loads that hold; else they are as verify measured them."""
    return all(side.highest for side in (economics.before, economics.after) if side is not None)


def one_at_a_time(economics: UnitEconomics) -> bool:
    """Whether each side served one request at a time and no load was searched: that says nothing of a fleet."""
    return not _searched(economics) and all(
        side.users == 1 for side in (economics.before, economics.after) if side is not None
    )


def counted_by(economics: UnitEconomics) -> str:
    """What the fleets are calculated from: what one server of each side was measured to serve."""
    served = [
        f"{name}: {side.users:,} at once, {plain(side.requests_per_second.value)} requests a second, on "
        f"{'one GPU' if side.gpus == 1 else f'{side.gpus} GPUs'}"
        for name, side in (("before", economics.before), ("after", economics.after))
        if side is not None
    ]
    sentence = f"Counted by what one server was measured to serve, {'; '.join(served)}."
    if _searched(economics):
        return f"{sentence} More at once was not shown to hold every promise."
    return f"{sentence} A GPU may well hold more at once: the fleets are upper bounds."


def same_load_sentence(economics: UnitEconomics | None, load: str) -> str:
    """Why both sides are counted at one `load`, whether or not the promise holds there."""
    before, after = (economics.before, economics.after) if economics else (None, None)
    if before is None and after is None:
        start = "Neither today's setup nor the plan met the promise at any load."
    else:
        start = "Today's setup" if before is None else "The plan"
        start += " met the promise at no load."
    return f"{start} Both are counted at one load, promise or not: {load}."


def _count_words(interval: Interval) -> str:
    return (
        f"{interval.value:,.0f}"
        if interval.low == interval.high
        else f"{interval.value:,.0f} ({interval.low:,.0f} to {interval.high:,.0f})"
    )


def _usd(interval: Interval) -> str:
    """An amount with its interval: whole dollars from a thousand on."""
    if interval.high < 1000:
        return amount(interval)
    value, low, high = (
        f"{'-' if usd < 0 else ''}${abs(usd):,.0f}" for usd in (interval.value, interval.low, interval.high)
    )
    return value if interval.low == interval.high else f"{value} ({low} to {high})"


def _rows(before: Fleet | None, after: Fleet | None, *, at_most: bool) -> list[FleetRow]:
    def row(title: str, anchor: str, name: str, write: Any = _usd) -> FleetRow:
        values = [getattr(side, name) if side else None for side in (before, after)]
        return FleetRow(title, anchor, *(MISSING if value is None else write(value) for value in values))

    rows = [
        row(f"GPUs needed{', at most' if at_most else ''}", "gpus-needed", "gpus", _count_words),
        row("A month", "month-and-year", "month"),
        row("A year", "month-and-year", "year"),
        row("A thousand requests of this demand", "thousand-requests", "thousand_requests", amount),
        row("A user and month", "user-and-month", "user_month"),
    ]
    return [row for row in rows if (row.before, row.after) != (MISSING, MISSING)]


def _usage(demand: Demand, sides: Sequence[ServedLoad | None], fleets: Sequence[Fleet | None]) -> FleetAnswer:
    """What the demand takes of the GPUs' capacity, and a sentence where most of the bill is for GPUs that wait."""
    shares = [
        fleet.capacity_used(demand, side, servers.gpus.value / side.gpus) if side and servers else None
        for side, servers in zip(sides, fleets, strict=True)
    ]
    stated = [share for share in shares if share is not None]
    if not stated:
        return FleetAnswer([], [])
    rows = [FleetRow("Capacity used", "capacity-used", *(percent(share) for share in shares))]
    if max(stated) >= IDLE:
        return FleetAnswer(rows, [])
    sentence = (
        f"This demand takes at most {percent(max(stated))} of the capacity that is paid for: the bill, and with it the "
        "price of a thousand requests, is mostly for GPUs that wait. Other models or demands could share them."
    )
    return FleetAnswer(rows, [sentence])


def _savings_sentence(comparison: FleetComparison) -> list[FleetRow]:
    rows = [
        FleetRow("Saved in a month", "saved", "", _usd(comparison.saved_month)),
        FleetRow("Saved in a year", "saved", "", _usd(comparison.saved_year)),
    ]
    if comparison.demand.fee:
        months = comparison.break_even_months
        rows.append(
            FleetRow("Break-even", "break-even", "", f"{plain(months)} months" if months is not None else "never")
        )
    return rows
