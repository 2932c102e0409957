"""Searches the highest load that holds, load by load."""

import math
from collections.abc import Callable

from workers.documents.base import Verdict
from workers.documents.load import OF_WINDOWS, LimitResult, LoadResult
from workers.loadtest.ladder import Ladder, saturated
from workers.loadtest.limit_search import LimitSearch
from workers.loadtest.measuring import LoadTest, measure_load
from workers.stats.verdicts import overall

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
