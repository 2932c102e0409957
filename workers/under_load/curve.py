"""The curve of one server: the search for the load that holds, within the stage's time."""

from collections.abc import Callable

from kernels.load.generator import Limits
from kernels.measure import environment
from workers.documents.load import LimitResult, LoadResult
from workers.documents.measurement import Telemetry
from workers.documents.workload import Objective
from workers.harness.context import Context
from workers.measuring.conditions import SECONDS_BETWEEN_SAMPLES
from workers.traffic.limit import Search
from workers.traffic.measuring import searched

LEAST_LOADS = 3
"""The loads of a curve that are measured even when time is up."""
LEAST_SECONDS, MOST_SECONDS = 3.0, 60.0
"""How long one load is put on."""
WARM_UP = 0.2
"""Share of a load's time that does not count, at its beginning."""

Loading = Callable[[int, Limits, float], LoadResult]
"""Puts so many users on a server for so long, and judges them at a confidence."""


class Curve:
    """Measures one side until `until` seconds of the stage are left; each load gets an equal share of the time."""

    def __init__(self, context: Context, device: str, most_users: int, until: float) -> None:
        self.search = Search(most_users, LEAST_LOADS)
        self._context, self._device, self._until = context, device, until
        self._done: set[int] = set()

    def measure(self, name: str, loading: Loading) -> LimitResult:
        """`name` is that of the side, for progress."""

        def measured(users: int) -> LoadResult:
            self._context.say(0.5, f"{name}: {users} user{'s' if users != 1 else ''} at once")
            seconds = self._seconds
            self._done.add(users)
            limits = Limits(seconds, warm_up_s=seconds * WARM_UP)
            with environment.Telemetry(self._device, interval=SECONDS_BETWEEN_SAMPLES[self._device]) as telemetry:
                found = loading(users, limits, self.search.confidence)
            return _beside_others(found, Telemetry.model_validate(telemetry.summary()))

        return searched(self.search, measured, unfinished=self._unfinished)

    @property
    def _left(self) -> float:
        return self._context.seconds_left - self._until

    @property
    def _seconds(self) -> float:
        remaining = max(LEAST_LOADS, self.search.loads) - len(self._done)
        return min(MOST_SECONDS, max(LEAST_SECONDS, self._left / max(1, remaining)))

    def _unfinished(self) -> str:
        if len(self._done) < LEAST_LOADS or self._left >= LEAST_SECONDS:
            return ""
        return f"The search ended after {len(self._done)} loads: the minutes were up. A higher load may hold as well."


def _beside_others(found: LoadResult, telemetry: Telemetry) -> LoadResult:
    """The result with the device's telemetry; void where another program used the GPU."""
    if not telemetry.void:
        return found.model_copy(update={"telemetry": telemetry})
    notes = [*found.notes, telemetry.void]
    return found.model_copy(update={"telemetry": telemetry, "verdict": None, "notes": notes})


def with_limits(objectives: list[Objective], before: dict[tuple[str, int | None], float | None]) -> list[Objective]:
    """The objectives with limits: that of a promise relative to today from the median that was measured before.

    `before` is by metric and n. A promise whose median is not known is left out.
    """
    found = []
    for each in objectives:
        if each.limit is not None:
            found.append(each)
        elif limit := each.limit_beside(before.get((each.metric, each.n))):
            found.append(each.model_copy(update={"limit": limit, "at_least_faster": None}))
    return found
