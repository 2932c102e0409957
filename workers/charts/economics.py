"""The price of a million tokens (or images) before and after over the range of prices the GPU can be had for."""

from collections.abc import Mapping
from dataclasses import dataclass

from workers.charts.base import AFTER, BEFORE, Cell, Chart, Figure, Table, layout
from workers.documents.base import Basis
from workers.documents.measurement import Interval
from workers.documents.money import AnyLoad, LoadPrice, ServedLoad, UnitEconomics
from workers.documents.prices import CostLine
from workers.documents.stages import Results
from workers.wording.text import MISSING, capitalised, dollars, quantity

COLOURS = {"before": BEFORE, "after": AFTER}


def sides(results: Results) -> dict[str, str]:
    """The sides with prices of their own, by their keys: one where no change is recommended, since both are alike."""
    unchanged = results.verify is not None and not results.verify.recommended
    return {"before": "Today"} if unchanged else {"before": "Before", "after": "After"}


def lines(results: Results) -> list[tuple[str, CostLine]]:
    """The deployments with their prices, each under the name that people read."""
    shown = sides(results)
    return [
        (shown.get(line.label) or capitalised(line.label), line)
        for line in (results.price.lines if results.price else [])
        if line.label in shown or line.label not in ("before", "after")
    ]


def figure(results: Results) -> Figure | None:
    if results.price is None or not results.price.sensitivity:
        return None
    points = sorted(results.price.sensitivity, key=lambda point: point.usd_per_hour)
    each_million = f"M {results.price.counted}"
    traces = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": name,
            "x": [point.usd_per_hour for point in points],
            "y": [getattr(point, key) for point in points],
            "line": {"color": COLOURS[key], "width": 2.5},
            "marker": {"size": 6, "color": COLOURS[key]},
            "hovertemplate": f"{name}: $%{{y:.4g}} per {each_million} at $%{{x:.2f}} per GPU-hour<extra></extra>",
        }
        for key, name in sides(results).items()
        if any(getattr(point, key) is not None for point in points)
    ]
    if not traces:
        return None
    form = layout("USD per GPU-hour", f"USD per {each_million}", yaxis={"rangemode": "tozero"}, height=320)
    return {"data": traces, "layout": form}


def table(results: Results) -> Table:
    points = results.price.sensitivity if results.price else []
    unit = f"USD per M {results.price.counted}" if results.price else ""
    shown = sides(results)
    rows: list[list[Cell]] = [[point.usd_per_hour, *(getattr(point, key) for key in shown)] for point in points]
    headers = ["USD per GPU-hour", *(f"{name.lower()}, {unit}" for name in shown.values())]
    return headers, [row for row in rows if any(cell is not None for cell in row[1:])]


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
    key: str
    title: str
    basis: Basis
    before: str
    after: str


def unit_rows(economics: UnitEconomics | None) -> list[UnitRow]:
    if economics is None:
        return []
    return [
        UnitRow(
            cost.key if cost.key != "counted" else "m-tokens",
            COSTS[cost.key].format(economics.counted),
            cost.basis,
            *(amount(side, cost.key == "energy") for side in (cost.before, cost.after)),
        )
        for cost in economics.costs
    ]


def amount(figure: Interval | None, joules: bool = False) -> str:
    """`$0.68 ($0.67 to $0.69)`; one number where the interval is a point."""
    if figure is None:
        return MISSING
    value, low, high = (
        quantity(value, "J") if joules else dollars(value) for value in (figure.value, figure.low, figure.high)
    )
    return value if low == high else f"{value} ({low} to {high})"


@dataclass(frozen=True)
class LoadCell:
    """One side at one load: its price, the interval, and the load, the first promise's time and whether it holds."""

    price: str
    interval: str
    detail: str


def any_load_rows(prices: AnyLoad | None) -> list[tuple[str, list[LoadCell]]]:
    """Each load of before with before's price, after's at the same load, and after's where it is no slower."""
    rows = []
    for row in prices.rows if prices else []:
        loads = (row.before, "", False), (row.same, "not measured", False), (row.no_slower, "no such load", True)
        cells = [_load_cell(price, prices.unit, none, named) for price, none, named in loads]  # type: ignore[union-attr]
        rows.append((capitalised(row.before.load), cells))
    return rows


def _load_cell(price: LoadPrice | None, unit: str, none: str, named: bool) -> LoadCell:
    if price is None:
        return LoadCell(MISSING, "", none)
    holds = "not shown to hold" if price.holds is None else "promise holds" if price.holds else "promise missed"
    detail = [price.load] * named + [quantity(price.value, unit)] * (price.value is not None) + [holds]
    cost = price.usd_per_mtok
    return LoadCell(dollars(cost.value), f"{dollars(cost.low)} to {dollars(cost.high)}", ", ".join(detail))


def energy_words(economics: UnitEconomics | None, shown: Mapping[str, str]) -> str:
    """Why a side of `shown` has no energy, in sentences; "" where all have one, none can have, or there is no price."""
    if economics is None:
        return ""
    sides_of: dict[str, list[str]] = {}
    for key, name in shown.items():
        side = getattr(economics, key)
        if side is not None and side.energy is not None and side.energy.reason:
            sides_of.setdefault(side.energy.reason, []).append(name.lower())
    if sides_of:
        return " ".join(f"Energy {' and '.join(names)} is not known: {why}" for why, names in sides_of.items())
    sides = [side for side in (economics.before, economics.after) if side is not None and side.energy is not None]
    if sides or not economics.generates:  # only models that generate are put under load
        return ""
    return "Energy is not known: the power of one side alone is measured only under load."


def loads(economics: UnitEconomics | None, shown: Mapping[str, str]) -> list[str]:
    """What the prices of each side of `shown` stand at: `32 requests at once, where the SLA does not hold`."""
    return [_load(getattr(economics, key)) for key in shown] if economics else []


def _load(side: ServedLoad | None) -> str:
    if side is None:
        return "no load is shown to hold the SLA"
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
    "The marks run from the lowest to the highest price taken for this GPU; read the line at what you pay.",
    "price",
    "modelled",
    figure,
    table,
)
