"""The highest load at which every objective holds, by a search whose confidence covers all of it.

Loads are numbered: n users of a closed loop, or n equal steps of an open loop's rate or a recording's speed
(`highest_load.py`). The rule, said of users: begin with one and double while the verdict is *met* or there were too few
requests to say, and further until `least` loads were measured, so that there is a curve; then halve the distance
between the highest number that was met and the lowest above it that was not, until they are neighbours. Where the
caller asks for it, the curve then goes on: the highest number is doubled until throughput is saturated. Promises of
throughput or cost, which more load brings nearer, end no climb: what is found is the highest load measured at which
they are met as well (`searching.py`). Every load is judged with the confidence 1 − 0.01 / K,
where K is the most verdicts that the search can take: one for each of its loads, or two where a load that had too few
requests may be put on once more. So the chance that any verdict *met* among them is wrong, and with it the number that
is found, is at most 1 % (the union bound), in whatever order the loads come, whether or not more users are slower, and
wherever the search ends for want of time. That a higher number would not hold as well is not proven.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workers.documents.base import Verdict
from workers.documents.load import Saturation
from workers.stats.verdicts import CONFIDENCE

LEAST_SLOPE = 0.1
"""Throughput is saturated where a further user brings less than this share of what one user had at the first load."""


@dataclass(frozen=True)
class LimitSearch:
    """A search among 1 to `most` users, which measures `least` loads where there are so many.

    `looks`: how often a load may be put on before it is decided.
    """

    most: int
    least: int = 1
    looks: int = 1

    @property
    def loads(self) -> int:
        """The most loads that the search takes: doublings up to `most`, then halvings of the last distance."""
        doublings = (self.most - 1).bit_length()
        return 2 * doublings + 1

    @property
    def confidence(self) -> float:
        """The confidence of the verdict on each load."""
        return 1 - (1 - CONFIDENCE) / (self.loads * self.looks)

    def run(self, verdict_at: Callable[[int], Verdict | None], rises: Callable[[], bool] = lambda: False) -> int:
        """The highest number of users that was met, 0 where none was.

        Calls `verdict_at` once for each load, and again for one that had too few requests where the search comes back
        to it; so it does to the last load on the way up, if each may be put on more than once.

        Where it says None there is no time for that load: the search ends with what was met so far. Behind the search
        the load is doubled further while `rises` says that throughput still does, for the curve; K has room for it.
        """
        met, above, users, loads = 0, self.most + 1, 1, 0
        while (verdict := verdict_at(users)) is not None:
            loads += 1
            decided = verdict not in ("met", "not_enough_samples")  # more load brings more requests
            if verdict == "met":
                met, above = users, self.most + 1
            elif decided or self.looks == 1:
                above = min(above, users)
            if users == self.most or (decided and loads >= self.least):
                break
            users = min(2 * users, self.most)
        if verdict == "not_enough_samples" and self.looks > 1:
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
    second that a user had at the first load. It is below LEAST_SLOPE from the load found to every higher one: batches
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
        if all(slope(rate, higher) < LEAST_SLOPE for higher in rates[at:])
    )
    slopes = list(itertools.starmap(slope, itertools.pairwise(rates)))
    return next((Saturation(users=users, least=LEAST_SLOPE, slopes=slopes) for users, _ in ends), None)
