"""The unit economics of a run: what each side costs by the unit, and what moves it."""

from workers.cost import fleet, same_load, unit_costs
from workers.cost.loads import LoadPair, PriceBreakdown
from workers.cost.pricing import GpuPrice, gpu_price
from workers.documents.load import LoadCurve
from workers.documents.measurement import Interval
from workers.documents.model import ModelManifest
from workers.documents.money import CostKey, PricePoint, SameLoad, ServedLoad, StatedFleet, UnitCost, UnitEconomics
from workers.documents.stages import Results
from workers.documents.workload import Workload
from workers.wording.text import dollars

DUTY_CYCLES = (1.0, 0.75, 0.5, 0.25)
LENGTHS = (0.5, 1.0, 2.0)
"""Multiples of prompt and output that the price of a request is modelled at."""
THOUSAND = 1000.0


def run_economics(priced: PriceBreakdown, results: Results) -> UnitEconomics | None:
    """Unit costs before and after at the load of `PriceBreakdown.sides`; None where neither side has one."""
    sides = priced.sides(results)
    if sides == (None, None):
        return None
    economics = served_loads(priced.workload, priced.model, sides)
    points = [*moves(economics, gpu_price(priced.book, priced.gpu_class)), *_over_load(priced, results)]
    stated = fleet.stated_fleet(priced.workload, *sides, same_load.same_load(priced, results))
    return economics.model_copy(update={"costs": costs(economics), "moves": points, "stated": stated})


def served_loads(workload: Workload, model: ModelManifest, sides: LoadPair) -> UnitEconomics:
    """What both sides serve, without costs."""
    return UnitEconomics(
        duty_cycle=workload.duty_cycle,
        prompt_tokens=workload.traffic.prompt_tokens,
        output_tokens=workload.traffic.output_tokens,
        generates=model.kind == "decoder",
        counted=model.counted,
        before=sides[0],
        after=sides[1],
        costs=[],
    )


def of_results(results: Results, workload: Workload, model: ModelManifest) -> UnitEconomics | None:
    """The unit economics that the price stage wrote, or for results of older versions those it would write today.

    None before the run is priced.
    """
    if results.price is None or results.verify is None:
        return None
    priced = PriceBreakdown(workload, model, results.price.book, results.verify.environment.gpu_class)
    return results.price.economics or run_economics(priced, results)


def demand_of(economics: UnitEconomics | None, workload: Workload, same: SameLoad | None) -> StatedFleet | None:
    """What the demand that the workload states takes; `economics` is None where neither side has a load."""
    if economics is not None and economics.stated is not None:
        return economics.stated
    sides = (economics.before, economics.after) if economics else (None, None)
    return fleet.stated_fleet(workload, *sides, same)


def costs(economics: UnitEconomics) -> list[UnitCost]:
    """Every unit cost that applies, before and after, in the order of the page."""
    before, after = (_costs_of(economics, side) for side in (economics.before, economics.after))
    return [
        UnitCost(
            key=key, before=before.get(key), after=after.get(key), basis="measured" if key == "energy" else "modelled"
        )
        for key in dict.fromkeys([*before, *after])
    ]


def _costs_of(economics: UnitEconomics, side: ServedLoad | None) -> dict[CostKey, Interval]:
    priced = dict[CostKey, Interval]()
    if side is None:
        return priced
    if side.usd_per_hour is not None:
        usd = side.usd_per_hour
        if economics.generates and side.read_per_second is not None:
            priced |= unit_costs.token_costs(side.read_per_second, side.per_second, usd)
        else:
            priced["output-tokens" if economics.generates else "counted"] = unit_costs.per_million(side.per_second, usd)
        priced["thousand-requests"] = unit_costs.cost_per(side.requests_per_second, usd, THOUSAND)
        if economics.generates:
            priced["conversation-hour"] = unit_costs.per_conversation_hour(usd, side.users)
    if side.energy is not None and side.energy.joules is not None:
        joules = side.energy.joules
        priced["energy"] = Interval(value=joules, low=joules, high=joules)
    return priced


def _thousand(side: ServedLoad | None, usd: float | None, factor: float | None = 1.0) -> float | None:
    if side is None or usd is None or factor is None:
        return None
    return unit_costs.cost_per(side.requests_per_second, usd, THOUSAND).value * factor


def moves(economics: UnitEconomics, price: GpuPrice) -> list[PricePoint]:
    """USD per thousand requests with one assumption changed: the run's own price, duty cycle, lengths."""
    sides: LoadPair = (economics.before, economics.after)
    hourly = [side.usd_per_hour if side else None for side in sides]
    points = []
    for usd in sorted({price.low, price.typical, price.high}):
        factors = [usd / price.typical if side and side.gpu == _gpu_used(economics) else 1.0 for side in sides]
        costs = [_thousand(side, hour, by) for side, hour, by in zip(sides, hourly, factors, strict=True)]
        points.append(_point("price", f"{dollars(usd)} per GPU-hour", costs))
    for duty in dict.fromkeys((economics.duty_cycle, *DUTY_CYCLES)):
        costs = [_thousand(side, hour, 1 / duty) for side, hour in zip(sides, hourly, strict=True)]
        points.append(_point("duty cycle", f"{100 * duty:.0f} % of the hour", costs))
    for prompt, output in _lengths(economics) if economics.generates else []:
        costs = [
            _thousand(side, hour, length_factor(economics, side, prompt, output) if side else None)
            for side, hour in zip(sides, hourly, strict=True)
        ]
        points.append(_point("lengths", f"{prompt:,} prompt and {output:,} output tokens", costs))
    return [point for point in points if point.before is not None or point.after is not None]


def _point(what: str, value: str, both: list[float | None]) -> PricePoint:
    return PricePoint(what=what, value=value, before=both[0], after=both[1], basis="modelled")  # type: ignore[arg-type]


def _gpu_used(economics: UnitEconomics) -> str:
    """The GPU that the run used: after always runs on it."""
    side = economics.after or economics.before
    return side.gpu if side else ""


def _over_load(priced: PriceBreakdown, results: Results) -> list[PricePoint]:
    """USD per thousand requests at every load that was measured on both sides or one."""
    if results.load is None:
        return []
    sides = [_by_level(priced, curve) for curve in (results.load.before, results.load.after)]
    words: dict[float, str] = {}
    for side in sides:
        for level, load in side.items():
            words.setdefault(level, load.load)
    points = []
    for level in sorted(words):
        loads = [side.get(level) for side in sides]
        costs = [_thousand(load, load.usd_per_hour if load else None) for load in loads]
        points.append(_point("load", words[level], costs))
    return points


def _by_level(priced: PriceBreakdown, curve: LoadCurve | None) -> dict[float, ServedLoad]:
    loads = {load.level: priced.tested(curve, load) for load in curve.limit.loads} if curve else {}
    return {level: load for level, load in loads.items() if load is not None}


def _lengths(economics: UnitEconomics) -> list[tuple[int, int]]:
    prompts, outputs = economics.prompt_tokens, economics.output_tokens
    return [(max(1, round(prompts * by)), max(1, round(outputs * other))) for by in LENGTHS for other in LENGTHS]


def length_factor(economics: UnitEconomics, side: ServedLoad, prompt: int, output: int) -> float | None:
    """How many times as long a request of other lengths takes, modelled; None where TTFT or TPOT was not measured."""
    if side.ttft_ms is None or side.tpot_ms is None:
        return None
    measured = (economics.prompt_tokens, economics.output_tokens)
    seconds = [
        unit_costs.request_seconds(side.ttft_ms, side.tpot_ms, lengths, economics.prompt_tokens)
        for lengths in ((prompt, output), measured)
    ]
    return seconds[0] / seconds[1] if seconds[1] else None
