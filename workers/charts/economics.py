"""The price of a million tokens (or images, …) before and after over the range of prices the GPU can be had for."""

from dataclasses import dataclass

from workers.charts.base import AFTER, BEFORE, Chart, Figure, Table, layout
from workers.charts.text import MISSING, dollars, quantity
from workers.documents.base import Basis
from workers.documents.measurement import Interval
from workers.documents.money import ServedLoad, UnitEconomics
from workers.documents.stages import Results


def figure(results: Results) -> Figure | None:
    if results.price is None or not results.price.sensitivity:
        return None
    points = sorted(results.price.sensitivity, key=lambda each: each.usd_per_hour)
    each_million = f"M {results.price.counted}"
    traces = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": name,
            "x": [each.usd_per_hour for each in points],
            "y": [getattr(each, key) for each in points],
            "line": {"color": colour, "width": 2.5},
            "marker": {"size": 6, "color": colour},
            "hovertemplate": f"{name}: $%{{y:.4g}} per {each_million} at $%{{x:.2f}} per GPU-hour<extra></extra>",
        }
        for name, colour, key in (("Before", BEFORE, "before"), ("After", AFTER, "after"))
        if any(getattr(each, key) is not None for each in points)
    ]
    if not traces:
        return None
    form = layout("USD per GPU-hour", f"USD per {each_million}", yaxis={"rangemode": "tozero"}, height=320)
    return {"data": traces, "layout": form}


def table(results: Results) -> Table:
    points = results.price.sensitivity if results.price else []
    unit = f"USD per M {results.price.counted}" if results.price else ""
    return ["USD per GPU-hour", f"before, {unit}", f"after, {unit}"], [
        [each.usd_per_hour, each.before, each.after]
        for each in points
        if each.before is not None or each.after is not None
    ]


COSTS: dict[str, str] = {
    "output-tokens": "A million output tokens",
    "input-tokens": "A million input tokens",
    "all-tokens": "A million tokens, read and written",
    "counted": "A million {}",
    "thousand-requests": "A thousand requests",
    "conversation-hour": "An hour of conversation",
    "energy": "Energy of one of the {}",
}
"""The unit costs by their keys, which are the anchors of their definitions in docs/method.md."""


@dataclass(frozen=True)
class UnitRow:
    """One unit cost in words, before and after."""

    key: str
    title: str
    basis: Basis
    before: str
    after: str


def unit_rows(found: UnitEconomics | None) -> list[UnitRow]:
    """The unit costs of both sides, each with its interval."""
    if found is None:
        return []
    return [
        UnitRow(
            each.key if each.key != "counted" else "m-tokens",
            COSTS[each.key].format(found.counted),
            each.basis,
            *(amount(side, each.key == "energy") for side in (each.before, each.after)),
        )
        for each in found.costs
    ]


def amount(found: Interval | None, joules: bool = False) -> str:
    """`$0.68 ($0.67 to $0.69)`; one number where the interval is a point."""
    if found is None:
        return MISSING
    value, low, high = (
        quantity(each, "J") if joules else dollars(each) for each in (found.value, found.low, found.high)
    )
    return value if low == high else f"{value} ({low} to {high})"


def energy_words(found: UnitEconomics | None) -> str:
    """Why a side has no energy, in sentences; "" where both have one, or there is no price."""
    if found is None:
        return ""
    said = []
    for name, side in (("before", found.before), ("after", found.after)):
        if side is not None and side.energy is not None and side.energy.reason:
            said.append(f"Energy {name} is not known: {side.energy.reason}")
    if said:
        return " ".join(said)
    known = [side for side in (found.before, found.after) if side is not None and side.energy is not None]
    return "" if known else "Energy is not known: power is read of one side alone only while it is put under load."


def loads(found: UnitEconomics | None) -> tuple[str, str]:
    """What each side's prices stand at, in words: `32 requests at once, where the SLA does not hold`."""
    if found is None:
        return "", ""
    return _load(found.before), _load(found.after)


def _load(side: ServedLoad | None) -> str:
    if side is None:
        return "no load holds the SLA"
    return f"{side.load}, where the SLA does not hold" if side.holds is False else side.load


def caution(results: Results, batch: int) -> str:
    """What to know of a ratio in documents that do not say their load; "" where there is nothing.

    Their sentence calls a ratio of rates tokens per dollar even where `batch` is 1, so that it is that of latencies.
    """
    price = results.price
    if price is None or price.at_once is not None or price.before_after_ratio is None or batch > 1:
        return ""
    return (
        f"Requests were served one at a time, so that ratio is the latencies' and no ratio of {price.counted} per "
        "dollar; a version that did not tell the two apart wrote this result."
    )


CHART = Chart(
    "economics",
    "Cost over the price of the GPU",
    "Public prices of one GPU spread about five-fold; read the line at the price you pay.",
    "price",
    "modelled",
    figure,
    table,
)
