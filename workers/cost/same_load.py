"""Both sides at one load, whether or not a promise holds there: what the change alone saves.

People come because what runs today misses the promise, so there often is no price of it under the promise.
"""

from workers.cost import unit_costs
from workers.cost.loads import LoadPair, PriceBreakdown
from workers.documents.measurement import Interval
from workers.documents.model import ModelManifest
from workers.documents.money import SameLoad, ServedLoad
from workers.documents.stages import Results
from workers.documents.workload import Workload


def of_results(results: Results, workload: Workload, model: ModelManifest) -> SameLoad | None:
    """What the price stage wrote, or for results of older versions what it would write today."""
    if results.price is None or results.verify is None:
        return None
    priced = PriceBreakdown(workload, model, results.price.book, results.verify.environment.gpu_class)
    return results.price.same_load or same_load(priced, results)


def after_as_verified(results: Results, workload: Workload, model: ModelManifest) -> Interval | None:
    """USD for a million of what the chosen plan gives at verify's traffic, promise or not; None without a price."""
    if results.price is None or results.verify is None:
        return None
    priced = PriceBreakdown(workload, model, results.price.book, results.verify.environment.gpu_class)
    after = priced.verified(results.verify, after=True)
    return unit_costs.per_million(after.per_second, after.usd_per_hour) if after and after.usd_per_hour else None


def same_load(priced: PriceBreakdown, results: Results) -> SameLoad | None:
    """Both sides at the highest load that was measured on both; where none was searched, at that of verify.

    None where no change is recommended, and where a side has no rate or no price.
    """
    before, after = _sides(priced, results)
    if before is None or after is None or not before.usd_per_hour or not after.usd_per_hour:
        return None
    return SameLoad(
        before=before,
        after=after,
        usd_before=unit_costs.per_million(before.per_second, before.usd_per_hour),
        usd_after=unit_costs.per_million(after.per_second, after.usd_per_hour),
    )


def _sides(priced: PriceBreakdown, results: Results) -> LoadPair:
    load, verify = results.load, results.verify
    if verify is None or not verify.recommended:
        return None, None
    curves = [load.before, load.after] if load is not None else []
    if not any(curves):
        return priced.verified(verify, after=False), priced.verified(verify, after=True)
    by_level: list[dict[float, ServedLoad]] = []
    for curve in curves:
        tests = [test for test in curve.limit.loads if test.verdict is not None] if curve else []
        served = {test.level: priced.tested(curve, test) for test in tests} if curve else {}
        by_level.append({level: side for level, side in served.items() if side is not None})
    before, after = by_level
    both = max(before.keys() & after.keys(), default=None)
    return (None, None) if both is None else (before[both], after[both])
