"""What a million output tokens costs before and after at each load that was measured, whether or not a promise holds.

A promise that before misses at every load leaves no price of before under it, yet the hour is paid for. So the loads
themselves are compared: both sides at the same load, and after at the cheapest load at which it is no slower.
"""

from collections.abc import Sequence

from workers.cost import unit_costs
from workers.cost.loads import PriceBreakdown, load_words
from workers.documents.load import LoadCurve, LoadResult
from workers.documents.model import ModelManifest
from workers.documents.money import AnyLoad, AnyLoadRow, LoadPrice
from workers.documents.stages import Results
from workers.documents.workload import Objective, Workload
from workers.wording.text import dollars, quantity


def of_results(results: Results, workload: Workload, model: ModelManifest) -> AnyLoad | None:
    """What the price stage wrote, or for results of older versions what it would write today."""
    if results.price is None or results.verify is None:
        return None
    priced = PriceBreakdown(workload, model, results.price.book, results.verify.environment.gpu_class)
    return results.price.any_load or at_any_load(priced, results)


def at_any_load(priced: PriceBreakdown, results: Results) -> AnyLoad | None:
    """Prices at the loads of both curves, void ones left out; None where not both sides were put under load."""
    load = results.load
    if load is None or load.before is None or load.after is None or not load.objectives:
        return None
    first = load.objectives[0]
    before, after = (_prices(priced, curve, first) for curve in (load.before, load.after))
    if not before or not after:
        return None
    rows = [_row(price, after, first) for price in before]
    most = [min(side, key=lambda price: price.usd_per_mtok.value) for side in (before, after)]
    words = [*_no_slower(rows, first), _most(before, after, *most)]
    return AnyLoad(
        promise=first.label,
        unit=first.unit,
        rows=rows,
        most_before=most[0],
        most_after=most[1],
        sentence=" ".join(words),
    )


def _prices(priced: PriceBreakdown, curve: LoadCurve, first: Objective) -> list[LoadPrice]:
    """One side by rising load."""
    prices = []
    for load in curve.limit.loads:
        side = priced.tested(curve, load) if load.verdict is not None else None
        if side is None or side.usd_per_hour is None:
            continue
        prices.append(
            LoadPrice(
                level=load.level,
                load=load_words(load.users, load.rate, load.speed),
                value=_value(load, first),
                holds=side.holds,
                per_second=side.per_second,
                usd_per_mtok=unit_costs.per_million(side.per_second, side.usd_per_hour),
            )
        )
    return prices


def _value(load: LoadResult, first: Objective) -> float | None:
    return next((outcome.value for outcome in load.outcomes if outcome.objective == first), None)


def _row(before: LoadPrice, after: Sequence[LoadPrice], first: Objective) -> AnyLoadRow:
    same = next((price for price in after if price.level == before.level), None)
    return AnyLoadRow(before=before, same=same, no_slower=_cheapest(before, after, first))


def _cheapest(before: LoadPrice, after: Sequence[LoadPrice], first: Objective) -> LoadPrice | None:
    """The cheapest load of after at which a time is no longer than before's; None where the promise is of no time."""
    if before.value is None or first.unit != "ms":
        return None
    within = [price for price in after if price.value is not None and price.value <= before.value]
    return min(within, key=lambda price: price.usd_per_mtok.value, default=None)


def _usd(price: LoadPrice) -> str:
    return dollars(price.usd_per_mtok.value)


def _no_slower(rows: Sequence[AnyLoadRow], first: Objective) -> list[str]:
    row = rows[-1]
    if row.no_slower is None:
        return []
    values = (quantity(price.value, first.unit) for price in (row.no_slower, row.before))
    return [
        f"No slower than before at {row.before.load}, after costs {_usd(row.no_slower)} at {row.no_slower.load}: "
        f"{first.label} is {' where before takes '.join(values)}."
    ]


def _most(
    before: Sequence[LoadPrice], after: Sequence[LoadPrice], most_before: LoadPrice, most_after: LoadPrice
) -> str:
    """Each side where it gave the most tokens; where that is the highest load tried, more may give more."""
    sentence = (
        f"Most tokens per second came at {most_before.load} before and at {most_after.load} after: "
        f"{_usd(most_before)} and {_usd(most_after)}."
    )
    undecided = [
        name
        for name, side, most in (("before", before, most_before), ("after", after, most_after))
        if most.level == side[-1].level
    ]
    if not undecided:
        return sentence
    who = "Neither side" if len(undecided) == 2 else f"{undecided[0].capitalize()}"
    was = "was measured at more" if len(undecided) == 2 else "was not measured at more"
    return f"{sentence} {who} {was}, where a token may cost less."
