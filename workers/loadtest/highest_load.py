"""Searches the highest load that holds, load by load."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kernels.load.generator import LoadDuration
from workers.documents.base import Verdict
from workers.documents.load import OF_WINDOWS, LimitResult, LoadResult, Saturation
from workers.documents.traffic import Gamma, Poisson, RecordedArrivals, Traffic
from workers.loadtest.limit_search import LimitSearch, saturation
from workers.loadtest.measuring import LoadTest, measure_load
from workers.stats.verdicts import CONFIDENCE, overall

RATES = 64
"""Equal steps from nothing to the highest rate or speed of an open loop; the lowest that is tried is one of them."""


def saturated(loads: Sequence[LoadResult]) -> Saturation | None:
    """Where throughput stops rising over these loads, void ones left out; None where it does not."""
    rising = sorted(loads, key=lambda load: load.level)
    return saturation([(load.level, load.tokens_per_second) for load in rising if load.verdict])


@dataclass(frozen=True)
class Ladder:
    """The rungs of a search, numbered from 1.

    Of a closed loop rung n has n users, `most_users` at most. Of an open loop it has n of RATES equal parts of the
    rate that the traffic states, or of the speed of recorded arrivals, and `most_users` is how many requests are served
    at once at most. A recording of `recorded_s` seconds is replayed from its first line, at most once in each load.
    """

    traffic: Traffic
    most_users: int
    recorded_s: float = math.inf

    def search(self, least: int = 1, looks: int = 1) -> LimitSearch:
        """The search, which measures `least` loads where there are so many, each `looks` times at most."""
        return LimitSearch(RATES if self.traffic.open_loop else self.most_users, least, looks)

    def test(self, test: LoadTest, rung: int, confidence: float) -> LoadTest:
        """The test at this rung, with prompts of its own; it ends with the recording where that ends before it."""
        arrivals, users, limits = self.traffic.arrivals, rung, test.limits
        if isinstance(arrivals, Poisson | Gamma):
            arrivals, users = arrivals.model_copy(update={"rate": arrivals.rate * rung / RATES}), self.most_users
        elif isinstance(arrivals, RecordedArrivals):
            speed = arrivals.speed * rung / RATES
            arrivals, users = arrivals.model_copy(update={"speed": speed}), self.most_users
            share = min(1.0, self.recorded_s / speed / limits.seconds)
            limits = LoadDuration(limits.seconds * share, limits.warm_up_s * share)
        changed = {"arrivals": arrivals, "concurrency": users, "seed": (self.traffic.seed + rung) % 2**32}
        traffic = self.traffic.model_copy(update=changed)
        return replace(test, traffic=traffic, limits=limits, confidence=confidence)

    def result(self, search: LimitSearch, rung: int, loads: list[LoadResult], unfinished: str) -> LimitResult:
        """What a search found: the highest rung that was met, 0 for none, among `loads`."""
        rate, speed = self.traffic.rate, self.traffic.speed
        loads = sorted(loads, key=lambda load: load.level)
        limit = LimitResult(
            users=rung,
            most=self.most_users,
            rate=None if rate is None else rate * rung / RATES,
            most_rate=rate,
            speed=None if speed is None else speed * rung / RATES,
            most_speed=speed,
            confidence=CONFIDENCE,
            confidence_each=search.confidence,
            loads=loads,
            saturation=saturated(loads),
            unfinished=unfinished,
        )
        if not self.traffic.open_loop:
            return limit
        return limit.model_copy(update={"users": limit.held.users if limit.held else 0})


OUT_OF_TIME = "The search ended early: the minutes were up."


def find_limit(test: LoadTest, most: int, shown: Callable[[LoadResult], None]) -> LimitResult:
    """The most users of a closed loop, or the highest rate or speed of an open one, at which every objective holds.

    `most`: users at most; rates and speeds rise up to the traffic's own. `shown` is called with the result of each
    load. Raises what `measure` raises; a recording of arrivals is read once before the first load.
    """
    ladder = Ladder(test.traffic, most, test.recording.seconds if test.recording else math.inf)
    search = ladder.search()
    return searched(ladder, search, lambda rung: measure_load(ladder.test(test, rung, search.confidence))[0], shown)


def searched(
    ladder: Ladder,
    search: LimitSearch,
    measured: Callable[[int], LoadResult],
    shown: Callable[[LoadResult], None] = lambda result: None,
    unfinished: Callable[[], str] = lambda: "",
    saturate: bool = False,
) -> LimitResult:
    """The search with all loads it took. `measured` puts a rung's load on and judges it at `search.confidence`.

    Promises that more load brings nearer end no climb: the search goes by the others, and what holds is the highest of
    its loads at which all are met. A void load is measured once more; void again, it counts as not met. Of a load that
    had too few requests for a verdict and is put on again, the second time counts alone. Before each load `unfinished`
    may say in a sentence why there is none any more. `saturate`: behind the search the load rises on while throughput
    does and `unfinished` says nothing; loads below the one that holds then get their verdict as well.
    """
    loads: list[LoadResult] = []
    kept: dict[int, LoadResult] = {}
    undecided: dict[int, LoadResult] = {}
    reason, searching = "", True

    def verdict_at(rung: int) -> Verdict | None:
        nonlocal reason
        if why := unfinished():
            reason = why if searching else ""
            return None
        result = measured(rung)
        if result.verdict is None and not unfinished():
            result = measured(rung)
        if rung in undecided:
            loads.remove(undecided.pop(rung))
        verdict = _by_falling(result)
        if verdict == "not_enough_samples":
            undecided[rung] = result
        loads.append(result)
        kept[rung] = result
        shown(result)
        return verdict

    def rises() -> bool:
        nonlocal searching
        searching = False
        return saturate and saturated(loads) is None

    rung = search.run(verdict_at, rises)
    searching = False
    for lower in sorted((rung_below for rung_below in undecided if saturate and rung_below < rung), reverse=True):
        verdict_at(lower)
    highest = max((users for users, load in kept.items() if load.verdict == "met" and users <= rung), default=0)
    return ladder.result(search, highest, loads, reason)


def _by_falling(result: LoadResult) -> Verdict:
    """The verdict without promises that more load brings nearer, where one of these is not kept."""
    if result.verdict not in ("missed", "too_close"):
        return result.verdict or "too_close"
    return overall([outcome.verdict for outcome in result.outcomes if outcome.objective.metric not in OF_WINDOWS])
