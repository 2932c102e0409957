"""Searches the highest load at which an endpoint keeps every promise, as the load stage does for its own servers."""

import math
import time
from datetime import UTC, datetime
from pathlib import Path

from kernels.load.generator import LoadDuration
from workers.documents.load import LimitResult, LoadResult
from workers.documents.stages import StageInput
from workers.documents.workload import Objective
from workers.loadtest.endpoint.client import EndpointClient
from workers.loadtest.highest_load import OUT_OF_TIME, LoadGrid, search_highest_load
from workers.loadtest.load_test import LoadTest, NotMeasurable, judge_load
from workers.loadtest.sending import LoadTarget

MIN_LOADS = 3
"""The loads that are measured even when time is up."""
MIN_SECONDS, MAX_SECONDS = 3.0, 60.0
"""The bounds of the time for one load, in seconds."""
WARM_UP = 0.2
"""The first share of a load's time, whose requests are not counted."""
LONGEST_REQUEST = 60.0


class EndpointLoadSearch:
    """The search at one endpoint, with the workload's traffic.

    `objectives` are the objectives to keep, `usd` is the price of the customer's server per hour, if it is known, and
    `recordings` is the folder of the recorded traffic.
    """

    def __init__(
        self,
        client: EndpointClient,
        document: StageInput,
        objectives: list[Objective],
        usd: float | None,
        recordings: Path,
    ) -> None:
        traffic = document.workload.traffic
        longest = min(traffic.time_out_s, LONGEST_REQUEST)
        self._traffic = traffic.model_copy(update={"batch": 1, "time_out_s": longest})
        self._client, self._objectives, self._usd = client, objectives, usd
        self._recordings, self._recording = recordings, document.recording
        self._done = 0

    def measure(self, most_users: int, seconds: float) -> LimitResult:
        """Searches for up to `seconds`. Raises MeasurementStopped, or one of FAILURES if no request is answered."""
        recorded_s = self._recording.seconds if self._recording else math.inf
        self._grid = LoadGrid(self._traffic, most_users, recorded_s)
        self._search, self._deadline = self._grid.search(MIN_LOADS), time.monotonic() + seconds
        return search_highest_load(self._grid, self._search, self._measured, stop_reason=self._unfinished)

    def _measured(self, index: int) -> LoadResult:
        seconds_left = (self._deadline - time.monotonic()) / max(1, self._search.loads - self._done)
        seconds = min(MAX_SECONDS, max(MIN_SECONDS, seconds_left))
        self._done += 1
        at = datetime.now(UTC).isoformat(timespec="seconds")

        def test_of(target: LoadTarget) -> LoadTest:
            limits = LoadDuration(seconds, WARM_UP * seconds)
            test = LoadTest(target, self._traffic, self._objectives, limits, self._recordings, self._usd)
            return self._grid.test(test, index, self._search.confidence)

        test, sent = self._client.put(test_of)
        load = judge_load(test, sent, at)
        if not load.completed and not load.cancelled:
            raise NotMeasurable(load.failures[0].sentence if load.failures else "No request ended.")
        return load

    def _unfinished(self) -> str:
        if self._done < MIN_LOADS or self._deadline - time.monotonic() >= MIN_SECONDS:
            return ""
        return OUT_OF_TIME
