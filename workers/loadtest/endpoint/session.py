"""Measures the customer's endpoint before and after a stage. A failure of the endpoint never fails the run."""

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kernels.load.figures import WARM_SHARE
from kernels.load.generator import LoadDuration, LoadTrace
from workers.documents.endpoint import Endpoint
from workers.documents.endpoint_result import EndpointResult, EndpointRound
from workers.documents.load import OF_WINDOWS, LoadCurve
from workers.documents.measurement import Distribution, metric_key
from workers.documents.stages import StageInput
from workers.documents.traffic import Traffic
from workers.documents.worker_api import EndpointAccess
from workers.documents.workload import Objective
from workers.loadtest.endpoint.client import FAILURES, EndpointClient
from workers.loadtest.endpoint.comparing import judged_objectives, ratios, read, rounds_sentence, server_of, users
from workers.loadtest.endpoint.load_search import EndpointLoadSearch
from workers.loadtest.load_test import LoadTest, judge_load
from workers.loadtest.sending import LoadTarget
from workers.loadtest.summary import LoadSummary
from workers.wording.load_search import curve_of

log = logging.getLogger(__name__)

SHARE = 0.1
"""The share of verify's seconds that each round takes."""
MIN_SECONDS, MAX_SECONDS = 3.0, 60.0
TIME_OUT_SHARE, MIN_TIME_OUT, MAX_TIME_OUT = 0.25, 5.0, 60.0
"""A request fails after this share of the stage's seconds, but not before the least and not after the most seconds."""
LOAD_SHARE = 0.25
"""The share of the load stage's seconds that the rising load takes."""
MIN_SECONDS_LEFT = 5.0
"""The least seconds that the stage itself gets."""
ProgressCallback = Callable[[float, str], None]


class EndpointSession:
    """Measures one endpoint during one attempt at a stage.

    It sends a round of requests before and another after the verify stage, and rising load after the load stage.
    Setting `stop` ends it. `on_progress` is called with the progress (0 to 1) and a sentence. `recordings` is the
    folder of the recorded traffic.
    """

    def __init__(
        self,
        document: StageInput,
        endpoint: Endpoint,
        access: EndpointAccess,
        stop: threading.Event,
        on_progress: ProgressCallback,
        recordings: Path = Path(),
    ) -> None:
        self._document, self._endpoint, self._recordings = document, endpoint, recordings
        self._on_progress = on_progress
        self._client = EndpointClient(endpoint, access, stop)
        self._rounds: list[tuple[str, str, LoadTrace]] = []
        self._failure = access.refused
        self._test: LoadTest | None = None
        self._started = time.monotonic()
        self.seconds = min(MAX_SECONDS, max(MIN_SECONDS, SHARE * document.seconds_left))
        self.load_seconds = LOAD_SHARE * document.seconds_left

    def before_stage(self) -> None:
        """Measures the round that precedes verify. Raises MeasurementStopped."""
        if self._document.stage == "verify":
            self._on_progress(0.0, "measuring the endpoint before verify")
            self.measure("before verify")

    def after_stage(self, result: dict[str, Any]) -> None:
        """Measures after the stage and writes it into its result, as `endpoint`. Raises MeasurementStopped."""
        self._on_progress(1.0, f"measuring the endpoint after {self._document.stage}")
        if self._document.stage == "verify":
            self.measure("after verify")
            result["endpoint"] = self.result(result.get("after")).model_dump(mode="json")
            return
        objectives = judged_objectives(read(list[Objective], result.get("objectives")), self._endpoint, self._usd)
        if not objectives:
            return
        curve = self.under_load(objectives)
        result["endpoint"] = curve.model_dump(mode="json") if curve else None
        if not curve and isinstance(result.get("notes"), list):
            result["notes"].append(f"The endpoint was not measured under load. {self._failure}")

    def left_for(self, document: StageInput) -> StageInput:
        """The stage's input with the seconds that remain after the rounds before the stage and the one after it."""
        coming = self.load_seconds if document.stage == "load" else self.seconds
        spent = time.monotonic() - self._started + (0 if self._failure else coming)
        return document.model_copy(update={"seconds_left": max(MIN_SECONDS_LEFT, document.seconds_left - spent)})

    def measure(self, when: str) -> None:
        """Sends a round, called `when`; none once one has failed. Raises MeasurementStopped."""
        if self._failure:
            return
        at = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            test, sent = self._client.put(self._test_of)
        except FAILURES as error:
            self._fail(str(error))
            return
        if any(exchange.ended for exchange in sent.counted):
            self._test = test
            self._rounds.append((when, at, sent))
        else:
            failed = next((exchange.sentence for exchange in sent.exchanges if exchange.error), "")
            self._fail(failed or f"No request ended within {self.seconds:.0f} s.")

    def under_load(self, objectives: list[Objective]) -> LoadCurve | None:
        """Latency and throughput over rising load; None if the endpoint fails. Raises MeasurementStopped."""
        workload = self._document.workload
        if self._failure or workload.load is None:
            return None
        search = EndpointLoadSearch(self._client, self._document, objectives, self._usd, self._recordings)
        try:
            limit = search.measure(workload.load.most_users, self.load_seconds)
        except FAILURES as error:
            self._fail(str(error))
            return None
        return curve_of(server_of(self._endpoint, workload.traffic, not workload.traffic.open_loop), limit)

    def result(self, after: Any) -> EndpointResult:
        """The result of all rounds together. `after` are the verified plan's distributions from the stage's result."""
        server = server_of(self._endpoint, self._document.workload.traffic)
        if self._test is None or not self._rounds:
            return EndpointResult(server=server, sentence=f"The endpoint was not measured. {self._failure}".strip())
        sents = [sent for _, _, sent in self._rounds]
        load = judge_load(self._test, sents[0], self._rounds[0][1], sents[1:])
        missing = f" Then it failed: {self._failure}" if self._failure else ""
        return EndpointResult(
            server=server,
            sentence=rounds_sentence(load, len(sents)) + missing,
            load=load,
            rounds=[self._summary(*entry) for entry in self._rounds],
            ratios=[] if load.lag.void else ratios(load.metrics, read(list[Distribution], after)),
        )

    @property
    def _usd(self) -> float | None:
        """The price of an hour of the customer's server in USD, where the workload states it."""
        present = self._document.workload.present
        return present.usd_per_hour if present else None

    def _fail(self, sentence: str) -> None:
        self._failure = self._client.hidden(sentence)
        log.info("endpoint not measured: %s", self._failure)

    def _test_of(self, target: LoadTarget) -> LoadTest:
        workload, limits = self._document.workload, LoadDuration(self.seconds, WARM_SHARE * self.seconds)
        traffic = _equal_requests(workload.traffic, len(self._rounds), self._document.seconds_left)
        objectives = judged_objectives(workload.objectives, self._endpoint, self._usd)
        shown = tuple(metric_key(objective) for objective in workload.objectives if objective.metric not in OF_WINDOWS)
        return LoadTest(target, traffic, objectives, limits, usd_per_hour=self._usd, shown=shown)

    def _summary(self, when: str, at: str, sent: LoadTrace) -> EndpointRound:
        load, first = LoadSummary(sent), self._document.workload.objectives[0]
        metric = load.metric(first.metric, first.n) if first.metric not in OF_WINDOWS else None
        failed = sum(bool(exchange.error) for exchange in load.exchanges)
        median = metric.percentiles["p50"] if metric else None
        return EndpointRound(
            when=when, at=at, seconds=load.seconds, requests=len(load.exchanges), failed=failed, median=median
        )


def _equal_requests(traffic: Traffic, number: int, seconds_left: float) -> Traffic:
    """The requests of verify, over HTTP. Each round has prompts of its own, so that no server knows them already."""
    limit = min(MAX_TIME_OUT, max(MIN_TIME_OUT, TIME_OUT_SHARE * seconds_left))
    return Traffic(
        prompt_tokens=traffic.prompt_tokens,
        output_tokens=traffic.output_tokens,
        concurrency=users(traffic),
        time_out_s=limit,
        seed=(traffic.seed + number) % 2**32,
    )
