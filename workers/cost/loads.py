"""What each side serves, at which load, and what it costs there: at the highest that holds, and at each measured."""

from collections.abc import Sequence
from dataclasses import dataclass

from workers.cost import unit_costs
from workers.cost.pricing import gpu_price
from workers.documents.load import LoadCurve, LoadResult
from workers.documents.measurement import Distribution, Energy, Interval, Telemetry
from workers.documents.model import ModelManifest
from workers.documents.money import HIGHEST, AnyLoad, AnyLoadRow, LoadPrice, ServedLoad
from workers.documents.prices import PriceBook
from workers.documents.stages import Results, VerifyResult
from workers.documents.workload import Objective, Workload
from workers.stats.verdicts import overall
from workers.wording.text import dollars, plain, quantity, speed_words

LoadPair = tuple[ServedLoad | None, ServedLoad | None]
MAX_GAP_S = 3.0
"""The longest time between two readings of power. What a device drew in a longer one is not known."""


def load_words(users: int, rate: float | None = None, speed: float | None = None) -> str:
    """A load in words: `one request at a time`, `32 requests at once`, `12.5 requests per second`, or a speed."""
    if speed is not None:
        return speed_words(speed)
    if rate is not None:
        return f"{plain(rate)} requests per second"
    return "one request at a time" if users == 1 else f"{users:,} requests at once"


@dataclass(frozen=True)
class PriceBreakdown:
    workload: Workload
    model: ModelManifest
    book: PriceBook
    gpu_class: str

    def sides(self, results: Results) -> LoadPair:
        """Before and after, both at the highest loads that hold, or both as verify measured them.

        There is None of a searched side on which no load holds, of one that served nothing, and of before where only
        after was searched: prices at unlike kinds of load are not set beside each other. Where no change is
        recommended, only today was searched, and stands on both sides.
        """
        load, verify = results.load, results.verify
        before = load.before if load is not None else None
        after = before if verify is not None and not verify.recommended else load.after if load is not None else None
        if after is not None:
            return self.highest(before) if before is not None else None, self.highest(after)
        if verify is None:
            return None, None
        return self.verified(verify, after=False), self.verified(verify, after=True)

    def verified(self, verify: VerifyResult, after: bool) -> ServedLoad | None:
        """What verify served of one side, in a closed loop of `concurrency` clients in batches of `batch`."""
        traffic, distributions = self.workload.traffic, verify.after if after else verify.before
        rate = verify.tokens_per_second_after if after else verify.tokens_per_second_before
        if not rate:
            return None
        processes = verify.speedup.processes if verify.speedup else []
        medians = [process.after if after else process.before for process in processes]
        served = unit_costs.rate_interval(rate, _samples(distributions, "throughput"), medians)
        requests = unit_costs.scale_interval(served, 1 / self.counted_per_request)
        users, price = traffic.batch * traffic.concurrency, gpu_price(self.book, self.gpu_class)
        gpus = verify.gpus if after else verify.gpus_before
        verdict = verify.verdict if after else overall([outcome.verdict_before for outcome in verify.outcomes])
        return ServedLoad(
            load=load_words(users),
            users=users,
            holds={"met": True, "missed": False}.get(verdict),
            gpu=verify.environment.device,
            gpus=gpus,
            usd_per_hour=price.typical * gpus,
            price_basis=price.basis,
            per_second=served,
            read_per_second=unit_costs.scale_interval(requests, traffic.prompt_tokens) if self.generates else None,
            requests_per_second=requests,
            ttft_ms=_median(distributions, "ttft"),
            tpot_ms=_median(distributions, "tpot"),
        )

    def highest(self, curve: LoadCurve) -> ServedLoad | None:
        highest = curve.limit.held
        return self.tested(curve, highest, highest=True) if highest is not None else None

    def tested(self, curve: LoadCurve, test: LoadResult, highest: bool = False) -> ServedLoad | None:
        """One load of a curve; None where nothing was served. All rates have the relative interval of the tokens."""
        rate, server = test.tokens_per_second, curve.server
        if not rate or not test.requests_per_second:
            return None
        served = test.tokens_per_second_interval or Interval(value=rate, low=rate, high=rate)
        price = gpu_price(self.book, server.gpu_class) if server.gpu_class else None
        read, words = test.prompt_tokens_per_second, load_words(test.users, test.rate, test.speed)
        return ServedLoad(
            load=f"{HIGHEST}{words}" if highest else words,
            users=test.users,
            holds={"met": True, "missed": False}.get(test.verdict or ""),
            highest=highest,
            server=server.label,
            gpu=server.hardware,
            gpus=server.gpus,
            usd_per_hour=price.typical * server.gpus if price else None,
            price_basis=price.basis if price else "stated",
            per_second=served,
            read_per_second=unit_costs.scale_interval(served, read / rate) if read else None,
            requests_per_second=unit_costs.scale_interval(served, test.requests_per_second / rate),
            ttft_ms=test.median("ttft"),
            tpot_ms=test.median("tpot"),
            energy=energy_of(test.telemetry, rate) if test.telemetry is not None else None,
        )

    @property
    def generates(self) -> bool:
        return self.model.kind == "decoder"

    @property
    def counted_per_request(self) -> int:
        """How many of what the model gives one request has: its output tokens, the tokens it reads, or one."""
        if self.generates:
            return self.workload.traffic.output_tokens
        return self.workload.traffic.prompt_tokens if self.model.counted == "tokens" else 1


def _samples(dists: Sequence[Distribution], metric: str) -> list[float]:
    return next((dist.samples for dist in dists if dist.metric == metric), [])


def _median(dists: Sequence[Distribution], metric: str) -> float | None:
    return next((dist.percentiles["p50"] for dist in dists if dist.metric == metric and dist.percentiles), None)


def energy_of(seen: Telemetry, per_second: float) -> Energy:
    """Joules for each of what was given `per_second`: mean watts / per_second.

    `seen` is of a time in which one side alone was served. Its mean is weighted by time (`power_record` in
    `kernels/measure/telemetry.py`). There are no joules, and a reason, where the device tells no power, where
    more than MAX_GAP_S pass between two readings, and where another program used the GPU.
    """
    reason = ""
    if seen.power_w_mean is None:
        reason = "The device tells no power."
    elif seen.power_gap_s is None or seen.power_gap_s > MAX_GAP_S:
        gap = "an unknown time" if seen.power_gap_s is None else f"{seen.power_gap_s:.1f} s"
        reason = f"Power was not read for {gap}, and more than {MAX_GAP_S:g} s void it."
    elif seen.void:
        reason = seen.void
    joules = seen.power_w_mean / per_second if seen.power_w_mean is not None and not reason else None
    return Energy(joules=joules, watts=seen.power_w_mean, reason=reason)


def of_results(results: Results, workload: Workload, model: ModelManifest) -> AnyLoad | None:
    """What the price stage wrote, or for results of older versions what it would write today."""
    if results.price is None or results.verify is None:
        return None
    priced = PriceBreakdown(workload, model, results.price.book, results.verify.environment.gpu_class)
    return results.price.any_load or at_any_load(priced, results)


def at_any_load(priced: PriceBreakdown, results: Results) -> AnyLoad | None:
    """Prices at the loads of both curves, void ones left out; None where not both sides were put under load.

    A promise that before misses at every load leaves no price of before under it, yet the hour is paid for. So the
    loads themselves are compared: both sides at the same load, and after at the cheapest at which it is no slower.
    """
    load = results.load
    if load is None or load.before is None or load.after is None or not load.objectives:
        return None
    first = load.objectives[0]
    before, after = (_prices(priced, curve, first) for curve in (load.before, load.after))
    if not before or not after:
        return None
    rows = [_row(price, after, first) for price in before]
    most = [min(side, key=lambda price: price.usd_per_mtok.value) for side in (before, after)]
    words = [*_no_slower(rows, first), _most_tokens_sentence(before, after, *most)]
    return AnyLoad(
        promise=first.label,
        unit=first.unit,
        rows=rows,
        most_before=most[0],
        most_after=most[1],
        sentence=" ".join(words),
    )


def _prices(priced: PriceBreakdown, curve: LoadCurve, first: Objective) -> list[LoadPrice]:
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


def _most_tokens_sentence(
    before: Sequence[LoadPrice], after: Sequence[LoadPrice], most_before: LoadPrice, most_after: LoadPrice
) -> str:
    """Each side where it gave the most tokens; where that is the highest load tried, more may give more."""
    sentence = (
        f"Most tokens per second came at {most_before.load} before and at {most_after.load} after: "
        f"{_usd(most_before)} and {_usd(most_after)}."
    )
    undecided = [
        name
        for name, side, highest in (("before", before, most_before), ("after", after, most_after))
        if highest.level == side[-1].level
    ]
    if not undecided:
        return sentence
    who = "Neither side" if len(undecided) == 2 else f"{undecided[0].capitalize()}"
    was = "was measured at more" if len(undecided) == 2 else "was not measured at more"
    return f"{sentence} {who} {was}, where a token may cost less."
