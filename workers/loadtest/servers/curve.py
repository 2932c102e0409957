"""The curve of one server: the search for the load that holds, within the stage's time."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from kernels.load.generator import LoadDuration, LoadTrace
from kernels.measure.telemetry import TelemetrySampler
from workers.documents.load import LimitResult, LoadResult
from workers.documents.measurement import BUSY, Telemetry, metric_key
from workers.documents.workload import Objective
from workers.harness.context import Context
from workers.loadtest.highest_load import OUT_OF_TIME, LoadGrid, search_highest_load
from workers.loadtest.load_test import LoadTest, judge_load
from workers.loadtest.servers import judging
from workers.measuring.served_model import SECONDS_BETWEEN_SAMPLES
from workers.wording.text import percent, traffic_words

MIN_LOADS = 3
"""The loads of a curve that are measured even when time is up."""
MIN_SECONDS, MAX_SECONDS = 3.0, 60.0
"""The bounds of the time that one load is put on, in seconds."""
ATTEMPTS = 2
"""How often a load is put on at most. The second time lasts as long as its verdict takes."""
SPARE = 1.5
"""The second time lasts this much longer than the first one predicts: requests beyond the limit make a verdict wait."""
WARM_UP = 0.2
"""Share of a load's time that does not count, at its beginning."""

Loading = Callable[[LoadTest], LoadTrace]
"""Puts the load of a test on a server."""


class CurveSearch:
    """Measures one side until `until` seconds of the stage are left.

    On the way up each load gets half of an equal share of the time. That may be too short for a verdict. Such a load is
    put on once more where the search comes back to it, for as long as its verdict takes.
    """

    def __init__(self, context: Context, device: str, grid: LoadGrid, until: float, gpus: int = 1) -> None:
        """`gpus` are those that the side runs on."""
        self._grid, self.search = grid, grid.search(MIN_LOADS, ATTEMPTS)
        self._context, self._device, self._until, self._gpus = context, device, until, gpus
        self._loads: dict[int, LoadResult] = {}
        self._again: set[int] = set()
        self.answers: list[list[judging.Answer]] = []
        """The answers of each load that are to be judged."""

    def measure(self, name: str, test: LoadTest, loading: Loading) -> LimitResult:
        """`name` is that of the side, for progress; `test` is that of every load but for its traffic and time."""

        def put_on(index: int, seconds: float) -> LoadResult:
            timed = replace(test, limits=LoadDuration(seconds, warm_up_s=seconds * WARM_UP))
            here = _in_time(self._grid.test(timed, index, self.search.confidence))
            self._context.report_progress(0.5, f"{name}: {traffic_words(here.traffic)}, {seconds:.0f} s")
            at, interval = datetime.now(UTC).isoformat(timespec="seconds"), SECONDS_BETWEEN_SAMPLES[self._device]
            with TelemetrySampler(self._device, interval=interval, gpus=self._gpus) as telemetry:
                sent = loading(here)
            steady = telemetry.summary(sent.counted_from_ns / 1e9, sent.stopped_ns / 1e9)
            self.answers.append(judging.sample_answers(sent))
            load = judge_load(here, sent, at).model_copy(update={"url": ""})
            return _beside_others(load, Telemetry.model_validate(steady))

        def measured(index: int) -> LoadResult:
            rising, known = index > max(self._loads, default=0), self._loads.get(index)
            if known is None or known.verdict is None:
                known = self._loads[index] = put_on(index, self._seconds)
            longer = 0.0 if rising or index in self._again else _seconds_for(known)
            if longer and longer <= min(MAX_SECONDS, self._seconds_left - MIN_SECONDS):
                self._again.add(index)
                self._loads[index] = put_on(index, longer)
            return self._loads[index]

        return search_highest_load(self._grid, self.search, measured, stop_reason=self._unfinished, saturate=True)

    @property
    def _seconds_left(self) -> float:
        return self._context.seconds_left - self._until

    @property
    def _seconds(self) -> float:
        remaining = max(MIN_LOADS, self.search.loads) - len(self._loads)
        return min(MAX_SECONDS, max(MIN_SECONDS, self._seconds_left / max(1, remaining) / ATTEMPTS))

    def _unfinished(self) -> str:
        if len(self._loads) < MIN_LOADS or self._seconds_left >= MIN_SECONDS:
            return ""
        return OUT_OF_TIME


def _seconds_for(load: LoadResult) -> float:
    """Seconds until a load has its verdict at the rate of its answers; 0 where it has one, or answered none."""
    undecided = [outcome for outcome in load.outcomes if outcome.verdict == "not_enough_samples"]
    if load.verdict != "not_enough_samples" or not all(outcome.requests for outcome in undecided):
        return 0.0
    return SPARE * max(outcome.needed / outcome.requests for outcome in undecided) * load.seconds / (1 - WARM_UP)


def _in_time(test: LoadTest) -> LoadTest:
    """The test, in which a request of an open loop that takes longer than the load and the longest limit has failed.

    Otherwise a server that does not keep up would be waited for after the load.
    """
    if not test.traffic.open_loop:
        return test
    limits = [promise.limit / 1e3 for promise in test.objectives if promise.limit is not None and promise.unit == "ms"]
    longest = min(test.traffic.time_out_s, test.limits.seconds + max(limits, default=0.0))
    return replace(test, traffic=test.traffic.model_copy(update={"time_out_s": longest}))


def _beside_others(load: LoadResult, telemetry: Telemetry) -> LoadResult:
    """The result with the device's telemetry; void where another program used the GPU, and if missed, on a busy CPU."""
    why, share = telemetry.void, telemetry.others_cpu_share or 0.0
    if share >= BUSY and load.verdict == "missed":
        why = f"Other programs used {percent(share, 0)} of the CPU meanwhile, so this load decides nothing."
    if not why:
        return load.model_copy(update={"telemetry": telemetry})
    return load.model_copy(update={"telemetry": telemetry, "verdict": None, "notes": [why, *load.notes]})


def with_limits(objectives: list[Objective], before: dict[tuple[str, int | None], float | None]) -> list[Objective]:
    """The objectives with limits: that of a promise relative to today from the median that was measured before.

    `before` is by metric and n. A promise whose median is not known is left out.
    """
    limited = []
    for objective in objectives:
        if objective.limit is not None:
            limited.append(objective)
        elif limit := objective.limit_beside(before.get(metric_key(objective))):
            limited.append(objective.model_copy(update={"limit": limit, "at_least_faster": None}))
    return limited
