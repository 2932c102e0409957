"""The highest load at which every objective holds, by a search whose confidence covers all of it.

Loads are numbered: n users of a closed loop, or n equal steps of an open loop's rate or a recording's speed. The rule,
said of users: begin with one and double while the verdict is *met* or there were too few requests to say, and further
until `least` loads were measured, so that there is a curve; then halve the distance between the highest number that was
met and the lowest above it that was not, until they are neighbours. Where the caller asks for it, the curve then goes
on: the highest number is doubled until throughput is saturated. A missed promise of throughput or cost, which more load
brings nearer, does not stop the search: what is found is the highest load measured at which they are met as well. Every
load is judged with the confidence 1 − 0.01 / K, where K is the most verdicts that the search can take: one for each of
its loads, or two where a load that had too few requests may be put on once more. So the chance that any verdict *met*
among them is wrong, and with it the number that is found, is at most 1 % (the union bound), in whatever order the loads
come, whether or not more users are slower, and wherever the search ends for want of time. That a higher number would
not hold as well is not proven.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kernels.load.generator import LoadDuration
from workers.documents.base import Verdict
from workers.documents.load import OF_WINDOWS, LimitResult, LoadResult, Saturation
from workers.documents.traffic import Gamma, Poisson, RecordedArrivals, Traffic
from workers.loadtest.load_test import LoadTest, measure_load
from workers.stats.verdicts import CONFIDENCE, overall

MIN_SLOPE = 0.1
"""Throughput is saturated where a further user brings less than this share of what one user had at the first load."""


@dataclass(frozen=True)
class LimitSearch:
    """A search among 1 to `most` users of `least` loads or more, each put on at most `attempts` times."""

    most: int
    least: int = 1
    attempts: int = 1

    @property
    def loads(self) -> int:
        """The most loads that the search takes: doublings up to `most`, then halvings of the last distance."""
        doublings = (self.most - 1).bit_length()
        return 2 * doublings + 1

    @property
    def confidence(self) -> float:
        """The confidence of the verdict on each load."""
        return 1 - (1 - CONFIDENCE) / (self.loads * self.attempts)

    def run(self, verdict_at: Callable[[int], Verdict | None], rises: Callable[[], bool] = lambda: False) -> int:
        """The highest number of users that was met, 0 where none was.

        Calls `verdict_at` once for each load, and again for one that had too few requests where the search comes back
        to it; the last load of the climb is repeated likewise, if `attempts` > 1.

        Where it says None there is no time for that load: the search ends with what was met so far. Behind the search
        the load is doubled further while `rises` says that throughput still does, for the curve. `loads` counts these
        doublings too.
        """
        met, above, users, loads = 0, self.most + 1, 1, 0
        while (verdict := verdict_at(users)) is not None:
            loads += 1
            decided = verdict not in ("met", "not_enough_samples")  # more load brings more requests
            if verdict == "met":
                met, above = users, self.most + 1
            elif decided or self.attempts == 1:
                above = min(above, users)
            if users == self.most or (decided and loads >= self.least):
                break
            users = min(2 * users, self.most)
        if verdict == "not_enough_samples" and self.attempts > 1:
            verdict = verdict_at(users)
            met, above = (users, above) if verdict == "met" else (met, min(above, users))
        while verdict is not None and above - met > 1 and met < self.most:
            middle = (met + above) // 2
            verdict = verdict_at(middle)
            if verdict == "met":
                met = middle
            elif verdict is not None:
                above = middle
        highest = users
        while verdict is not None and highest < self.most and rises():
            highest = min(2 * highest, self.most)
            verdict = verdict_at(highest)
            met = highest if verdict == "met" else met
        return met


def saturation(rates: Sequence[tuple[float, float]]) -> Saturation | None:
    """Where throughput stops rising: `rates` are (users, tokens per second), by rising users. None where it does not.

    Of an open loop requests per second stand in the place of users, of recorded arrivals the speed.

    The slope between two loads is the tokens per second that each further user brought, as a share of the tokens per
    second that a user had at the first load. It is below MIN_SLOPE from the load found to every higher one: batches
    are padded to the sizes of captured graphs, so a small step up may bring nothing and the next one much.
    """
    if len(rates) < 2 or not rates[0][1]:
        return None
    alone = rates[0][1] / rates[0][0]

    def slope(low: tuple[float, float], high: tuple[float, float]) -> float:
        return (high[1] - low[1]) / (high[0] - low[0]) / alone

    ends = (
        rate
        for at, rate in enumerate(rates[:-1], start=1)
        if all(slope(rate, higher) < MIN_SLOPE for higher in rates[at:])
    )
    slopes = list(itertools.starmap(slope, itertools.pairwise(rates)))
    return next((Saturation(users=users, least=MIN_SLOPE, slopes=slopes) for users, _ in ends), None)


RATE_STEPS = 64
"""Equal steps from nothing to the highest rate or speed of an open loop; the lowest that is tried is one of them."""


def saturation_load(loads: Sequence[LoadResult]) -> Saturation | None:
    """Where throughput stops rising over these loads, void ones left out; None where it does not."""
    rising = sorted(loads, key=lambda load: load.level)
    return saturation([(load.level, load.tokens_per_second) for load in rising if load.verdict])


@dataclass(frozen=True)
class LoadGrid:
    """The loads of a search, numbered from 1.

    Of a closed loop load n has n users, `most_users` at most. Of an open loop it has n of RATE_STEPS equal parts of the
    rate that the traffic states, or of the speed of recorded arrivals, and `most_users` is how many requests are served
    at once at most. A recording of `recorded_s` seconds is replayed from its first line, at most once in each load.
    """

    traffic: Traffic
    most_users: int
    recorded_s: float = math.inf

    def search(self, least: int = 1, attempts: int = 1) -> LimitSearch:
        """The search, which measures `least` loads where there are so many, each `attempts` times at most."""
        return LimitSearch(RATE_STEPS if self.traffic.open_loop else self.most_users, least, attempts)

    def test(self, test: LoadTest, index: int, confidence: float) -> LoadTest:
        """The test of this load, with prompts of its own; it ends with the recording where that ends before it."""
        arrivals, users, limits = self.traffic.arrivals, index, test.limits
        if isinstance(arrivals, Poisson | Gamma):
            arrivals, users = arrivals.model_copy(update={"rate": arrivals.rate * index / RATE_STEPS}), self.most_users
        elif isinstance(arrivals, RecordedArrivals):
            speed = arrivals.speed * index / RATE_STEPS
            arrivals, users = arrivals.model_copy(update={"speed": speed}), self.most_users
            share = min(1.0, self.recorded_s / speed / limits.seconds)
            limits = LoadDuration(limits.seconds * share, limits.warm_up_s * share)
        changed = {"arrivals": arrivals, "concurrency": users, "seed": (self.traffic.seed + index) % 2**32}
        traffic = self.traffic.model_copy(update=changed)
        return replace(test, traffic=traffic, limits=limits, confidence=confidence)

    def result(self, search: LimitSearch, index: int, loads: list[LoadResult], unfinished: str) -> LimitResult:
        """What a search found: the highest load that was met, 0 for none, among `loads`."""
        rate, speed = self.traffic.rate, self.traffic.speed
        loads = sorted(loads, key=lambda load: load.level)
        limit = LimitResult(
            users=index,
            most=self.most_users,
            rate=None if rate is None else rate * index / RATE_STEPS,
            most_rate=rate,
            speed=None if speed is None else speed * index / RATE_STEPS,
            most_speed=speed,
            confidence=CONFIDENCE,
            confidence_each=search.confidence,
            loads=loads,
            saturation=saturation_load(loads),
            unfinished=unfinished,
        )
        if not self.traffic.open_loop:
            return limit
        return limit.model_copy(update={"users": limit.held.users if limit.held else 0})


OUT_OF_TIME = "The search ended early: the minutes were up."


def find_limit(test: LoadTest, most: int, on_result: Callable[[LoadResult], None]) -> LimitResult:
    """The most users of a closed loop, or the highest rate or speed of an open one, at which every objective holds.

    `most`: users at most; rates and speeds rise up to the traffic's own. `on_result` is called with the result of
    each load. Raises what `measure` raises; a recording of arrivals is read once before the first load.
    """
    grid = LoadGrid(test.traffic, most, test.recording.seconds if test.recording else math.inf)
    search = grid.search()
    return search_highest_load(
        grid, search, lambda index: measure_load(grid.test(test, index, search.confidence))[0], on_result
    )


def search_highest_load(
    grid: LoadGrid,
    search: LimitSearch,
    measure: Callable[[int], LoadResult],
    on_result: Callable[[LoadResult], None] = lambda result: None,
    stop_reason: Callable[[], str] = lambda: "",
    saturate: bool = False,
) -> LimitResult:
    """The search with all loads it took. `measure` puts the load of an index on and judges it at `search.confidence`.

    Promises that more load brings nearer end no climb: the search goes by the others, and what holds is the highest of
    its loads at which all are met. A void load is measured once more; void again, it counts as not met. Of a load that
    had too few requests for a verdict and is put on again, the second time counts alone. Before each load `stop_reason`
    says in a sentence why the search ends there, or "". `saturate`: behind the search the load rises on while
    throughput does and `stop_reason` says nothing; loads below the one that holds then get their verdict as well.
    """
    loads: list[LoadResult] = []
    kept: dict[int, LoadResult] = {}
    undecided: dict[int, LoadResult] = {}
    reason, searching = "", True

    def verdict_at(index: int) -> Verdict | None:
        nonlocal reason
        if why := stop_reason():
            reason = why if searching else ""
            return None
        result = measure(index)
        if result.verdict is None and not stop_reason():
            result = measure(index)
        if index in undecided:
            loads.remove(undecided.pop(index))
        verdict = _latency_verdict(result)
        if verdict == "not_enough_samples":
            undecided[index] = result
        loads.append(result)
        kept[index] = result
        on_result(result)
        return verdict

    def rises() -> bool:
        nonlocal searching
        searching = False
        return saturate and saturation_load(loads) is None

    index = search.run(verdict_at, rises)
    searching = False
    for lower in sorted((below for below in undecided if saturate and below < index), reverse=True):
        verdict_at(lower)
    highest = max((users for users, load in kept.items() if load.verdict == "met" and users <= index), default=0)
    return grid.result(search, highest, loads, reason)


def _latency_verdict(result: LoadResult) -> Verdict:
    """The verdict without promises that more load brings nearer, where one of these is not kept."""
    if result.verdict not in ("missed", "too_close"):
        return result.verdict or "too_close"
    return overall([outcome.verdict for outcome in result.outcomes if outcome.objective.metric not in OF_WINDOWS])
