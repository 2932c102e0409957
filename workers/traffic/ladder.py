"""The loads among which the highest is searched: users of a closed loop, or rates of an open one."""

from dataclasses import dataclass, replace

from workers.documents.load import LimitResult, LoadResult
from workers.documents.traffic import Gamma, Poisson, Traffic
from workers.traffic.limit import Search, saturation
from workers.traffic.measuring import LoadTest
from workers.verdicts import CONFIDENCE

RATES = 64
"""Equal steps from nothing to the highest rate of an open loop; the lowest rate that is tried is one of them."""


@dataclass(frozen=True)
class Ladder:
    """The rungs of a search, numbered from 1.

    Of a closed loop rung n has n users, `most_users` at most. Of an open loop it has n of RATES equal parts of the
    rate that the traffic states, and `most_users` is how many requests are served at once at most.
    """

    traffic: Traffic
    most_users: int

    def search(self, least: int = 1) -> Search:
        """The search, which measures `least` loads where there are so many."""
        return Search(RATES if self.traffic.open_loop else self.most_users, least)

    def test(self, test: LoadTest, rung: int, confidence: float) -> LoadTest:
        """The test at this rung, with prompts of its own. Raises ValueError where arrivals are recorded."""
        arrivals, users = self.traffic.arrivals, rung
        if isinstance(arrivals, Poisson | Gamma):
            arrivals, users = arrivals.model_copy(update={"rate": arrivals.rate * rung / RATES}), self.most_users
        elif self.traffic.open_loop:
            raise ValueError("the highest load is searched among users or rates; recorded arrivals have one rate")
        changed = {"arrivals": arrivals, "concurrency": users, "seed": (self.traffic.seed + rung) % 2**32}
        return replace(test, traffic=self.traffic.model_copy(update=changed), confidence=confidence)

    def result(self, search: Search, rung: int, loads: list[LoadResult], unfinished: str) -> LimitResult:
        """What a search found: the highest rung that was met, 0 for none, among `loads`."""
        rate = self.traffic.rate
        loads = sorted(loads, key=lambda each: each.level)
        found = LimitResult(
            users=rung,
            most=self.most_users,
            rate=None if rate is None else rate * rung / RATES,
            most_rate=rate,
            confidence=CONFIDENCE,
            confidence_each=search.confidence,
            loads=loads,
            saturation=saturation([(each.level, each.tokens_per_second) for each in loads if each.verdict]),
            unfinished=unfinished,
        )
        if rate is None:
            return found
        return found.model_copy(update={"users": found.held.users if found.held else 0})
