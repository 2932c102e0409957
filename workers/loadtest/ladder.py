"""The loads among which the highest is searched: users of a closed loop, rates of an open one, or speeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernels.load.generator import LoadDuration
from workers.documents.load import LimitResult, LoadResult, Saturation
from workers.documents.traffic import Gamma, Poisson, RecordedArrivals, Traffic
from workers.loadtest.limit_search import LimitSearch, saturation
from workers.loadtest.measuring import LoadTest
from workers.stats.verdicts import CONFIDENCE

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
