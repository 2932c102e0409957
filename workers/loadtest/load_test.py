"""A load test with a verdict: a server is tried, its counting learnt, load put on it, and the result judged."""

import asyncio
import math
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from http import HTTPStatus
from pathlib import Path

from kernels.load.exchange import CANCELLED
from kernels.load.generator import MAX_IN_FLIGHT, LoadDuration, LoadTrace, OnProgress, ignore_progress
from kernels.load.sender_process import SenderDied
from kernels.measure.latency import samples_of
from workers.documents.load import OF_WINDOWS, LoadMetric, LoadResult
from workers.documents.measurement import metric_key
from workers.documents.recording import RecordingFacts
from workers.documents.traffic import Traffic
from workers.documents.workload import Objective
from workers.loadtest.prompts import PATHS, REFUSABLE, TokenScale
from workers.loadtest.recording import NO_ARRIVALS, InvalidRecording, facts
from workers.loadtest.sending import LoadTarget, probe, sending
from workers.loadtest.summary import LoadSummary
from workers.stats.verdicts import CONFIDENCE, overall

PROBES = (32, 160)
"""Words of the two requests by which the server's way of counting tokens is learnt."""
REFUSALS = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)
DIVISORS = (1, 4, 16)
"""The words of PROBES are divided by these in turn, until the server takes the probes: a short context refuses some."""
STREAMED = ("ttft", "tpot", "itl", "e2e")
NOT_STREAMED = ("batch_latency",)
MANY_ALIKE = 3.0
"""Where so many requests count as one or more, the result says so."""
OF_TOKENS = ("ttft", "ttf_n", "tpot", "itl", "cost_per_mtok")


MIN_GAP_MS = 0.1
"""No server generates the tokens of one answer with less time between them."""


class NotMeasurable(RuntimeError):
    """Nothing could be measured, as when a server does not answer a first request; the message is a sentence."""


@dataclass(frozen=True)
class LoadTest:
    """What is measured: a server under a traffic description, judged by objectives.

    `folder` is where paths begin. `shown`: metrics with their n that have figures without being judged.
    """

    target: LoadTarget
    traffic: Traffic
    objectives: list[Objective]
    limits: LoadDuration
    folder: Path = Path()
    usd_per_hour: float | None = None
    confidence: float = CONFIDENCE
    shown: tuple[tuple[str, int | None], ...] = ()

    @cached_property
    def recording(self) -> RecordingFacts | None:
        """What the recording holds as far as it is sent; None where the traffic names none.

        Raises InvalidRecording for a broken line, and where arrivals are to be replayed and there are none.
        """
        if not self.traffic.recording:
            return None
        file, speed = self.folder / self.traffic.recording, self.traffic.speed
        holds = facts(file, math.inf if speed is None else self.limits.seconds * speed)
        if speed is not None and not holds.seconds:
            raise InvalidRecording(file, NO_ARRIVALS)
        return holds

    def check(self) -> None:
        """Raises ValueError with a sentence for a promise that this test cannot judge."""
        for objective in self.objectives:
            label = objective.label
            if objective.limit is None:
                raise ValueError(f"{label} is promised relative to today; a load test of one server needs a limit")
            if objective.metric == "cost_per_mtok" and self.usd_per_hour is None:
                raise ValueError(f"{label} needs the price of the server, present.usd_per_hour")
            if self.target.api == "embeddings" and objective.metric in OF_TOKENS:
                raise ValueError(f"{label} is about generated tokens, which embeddings do not have")
            if objective.metric == "throughput" and self.limits.seconds - self.limits.warm_up_s < 2:
                raise ValueError(f"{label} is judged by whole seconds; measure for longer")


async def calibrate_token_scale(test: LoadTest) -> tuple[LoadTest, TokenScale]:
    """Sends two requests, shorter ones where the server refuses those. Raises NotMeasurable when it answers neither.

    Where the server refuses a field that a load can do without, the test is returned without it.
    """
    for divisor in DIVISORS:
        exchanges = [await probe(test.target, test.traffic, words // divisor) for words in PROBES]
        refused = next((exchange for exchange in exchanges if exchange.error), None)
        if refused is None or refused.status != HTTPStatus.BAD_REQUEST:
            break
    if refused is not None:
        target = test.target
        for name in (name for name in REFUSABLE if name not in target.refused):
            if name in refused.sentence and refused.status in REFUSALS:
                return await calibrate_token_scale(
                    replace(test, target=replace(target, refused=(*target.refused, name)))
                )
        if refused.status == HTTPStatus.NOT_FOUND:
            where = f"{target.address.base}{PATHS[target.api]}"
            raise NotMeasurable(f"{refused.sentence.rstrip('.')}. The request went to {where}.")
        raise NotMeasurable(refused.sentence)
    first, second = (exchange.counted_prompt for exchange in exchanges)
    if first is None or second is None:
        return test, TokenScale()
    return test, TokenScale.from_counts((PROBES[0] // divisor, PROBES[1] // divisor), (first, second))


async def apply_load(test: LoadTest, progress: OnProgress = ignore_progress) -> tuple[LoadTest, LoadTrace]:
    """Learns how the server counts, then puts the load on it. Returns the trace, and the test without the fields that
    the server refuses. Raises NotMeasurable, or InvalidRecording for a broken recording.
    """
    test, scale = await calibrate_token_scale(test)
    try:
        return test, await sending(test.target, test.traffic, test.folder, test.limits, scale).run(progress)
    except SenderDied as error:
        raise NotMeasurable(str(error)) from None


def measure(test: LoadTest, progress: OnProgress = ignore_progress) -> tuple[LoadResult, LoadTrace]:
    """Reads the recording, puts load on the server, and judges it; the warm-up of a short recording is shorter.

    Raises NotMeasurable when the server does not answer at all or a process that sends dies, ValueError for what makes
    no sense, InvalidRecording where a recording is broken.
    """
    limits, speed = test.limits, test.traffic.speed
    if test.recording and speed is not None:
        share = min(1.0, test.recording.seconds / speed / limits.seconds)
        test = replace(test, limits=replace(limits, warm_up_s=limits.warm_up_s * share))
    return measure_load(test, progress)


def measure_load(test: LoadTest, progress: OnProgress = ignore_progress) -> tuple[LoadResult, LoadTrace]:
    """As `measure`, of a recording that was read before."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    test, sent = run_load(test, progress)
    return judge_load(test, sent, at), sent


def run_load(test: LoadTest, progress: OnProgress = ignore_progress) -> tuple[LoadTest, LoadTrace]:
    """Puts load on the server, as `apply_load`. Raises what `measure` raises."""
    test.check()
    return asyncio.run(apply_load(test, progress))


def judge_load(test: LoadTest, sent: LoadTrace, at: str, more: Sequence[LoadTrace] = ()) -> LoadResult:
    """The result of a load test; with `more` rounds of it, of all of them together."""
    load = LoadSummary(sent, test.usd_per_hour, more)
    lag = load.generator_lag()
    outcomes = [load.outcome(objective, test.confidence) for objective in test.objectives]
    ended = [exchange for exchange in load.exchanges if exchange.ended and exchange.ended != CANCELLED]
    generates = test.target.api != "embeddings"
    came = [(max(exchange.tokens, sum(exchange.with_text)), exchange.planned.output_tokens) for exchange in ended]
    short = sum(tokens < wanted for tokens, wanted in came if generates)
    return LoadResult(
        at=at,
        url=test.target.address.url,
        model=test.target.model,
        api=test.target.api,
        traffic=test.traffic,
        host=f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        warm_up_seconds=test.limits.warm_up_s,
        seconds=load.seconds,
        requests=len(load.exchanges),
        completed=len(ended),
        cancelled=sum(exchange.ended == CANCELLED for exchange in load.exchanges),
        ended_early=short,
        failures=load.failures(),
        tokens=load.tokens(),
        metrics=_metrics(test, load),
        requests_per_second=load.requests_per_second,
        tokens_per_second=load.tokens_per_second,
        tokens_per_second_interval=load.tokens_per_second_interval,
        goodput=load.goodput(test.objectives),
        in_flight=load.in_flight,
        lag=lag,
        outcomes=outcomes,
        verdict=None if lag.void or not outcomes else overall([outcome.verdict for outcome in outcomes]),
        notes=_notes(test, load, short),
    )


def _metrics(test: LoadTest, load: LoadSummary) -> list[LoadMetric]:
    keys = [*(metric_key(objective) for objective in test.objectives), *test.shown]
    usual = [(metric, None) for metric in (NOT_STREAMED if test.target.api == "embeddings" else STREAMED)]
    metrics = []
    for metric, n in dict.fromkeys([*keys, *usual]):
        extra = [objective.percentile for objective in test.objectives if metric_key(objective) == (metric, n)]
        if figures := load.metric(metric, n, extra):
            metrics.append(figures)
    return metrics


def _notes(test: LoadTest, load: LoadSummary, short: int) -> list[str]:
    """What a reader must know beside the figures, a sentence each."""
    void = load.lag.sentence(closed=not load.open_loop)
    notes = [void] if void else []
    if any(sent.overrun for sent in load.rounds):
        notes.append(f"Sending stopped when {MAX_IN_FLIGHT:,} requests were open: the server does not keep up.")
    notes += _token_notes(load, counts=test.target.api != "embeddings")
    notes += [REFUSABLE[name] for name in test.target.refused]
    if short and not test.traffic.end_of_text and "ignore_eos" not in test.target.refused:
        notes.append(f"{short:,} answers were shorter than asked for; the server does not keep to ignore_eos.")
    return notes + _sample_notes(test, load)


def _token_notes(load: LoadSummary, counts: bool) -> list[str]:
    """On how the server counts and streams tokens; `counts` is whether it should give the answers' counts."""
    tokens, notes = load.tokens(), list[str]()
    if tokens.prompt is not None and abs(tokens.prompt - tokens.prompt_wanted) > 0.05 * tokens.prompt_wanted:
        notes.append(
            f"The server counted {tokens.prompt:,} prompt tokens where {tokens.prompt_wanted:,} were wanted: "
            "prompts are made of words."
        )
    if tokens.several:
        notes.append(
            f"{tokens.several:,} answers had several tokens in one event: their TTF-N is at most what is shown, and "
            "gaps between tokens are gaps between events."
        )
    if tokens.uncounted and counts:
        notes.append(f"{tokens.uncounted:,} answers came without a count; one event was taken for one token.")
    at_once = sum(  # two tokens may be of one step of the server
        len(served.times_ns) > 2 and samples_of(served, "tpot")[0] < MIN_GAP_MS for _, served in load.served
    )
    if at_once > len(load.served) / 2:  # on a busy machine single ones do
        notes.append(
            f"{at_once:,} answers came in one piece: the server, or a proxy before it, held their tokens back. Their "
            "TTFT is the time of the whole answer, and TPOT and ITL say nothing about the server."
        )
    parts = sum(exchange.tokens < sum(exchange.with_text) for exchange, _ in load.served)
    if parts:
        notes.append(f"{parts:,} answers had more events with text than the server counted tokens.")
    return notes


def _sample_notes(test: LoadTest, load: LoadSummary) -> list[str]:
    """On the requests that promises are judged by: fewer than all, or ones that depend on each other."""
    of_requests = (objective for objective in test.objectives if objective.metric not in OF_WINDOWS)
    single = [load.outcome(objective, test.confidence) for objective in of_requests]
    notes = [
        f"{outcome.objective.label} is judged by {outcome.requests:,} of {len(load.exchanges):,} requests: the others "
        "ended before it."
        for outcome in single
        if outcome.requests < len(load.exchanges)
    ]
    most = max((outcome.alike for outcome in single), default=1.0)
    if most >= MANY_ALIKE:
        notes.append(
            "Requests that queue behind each other, or are answered together, are alike: verdicts count up to "
            f"{most:.1f} as one."
        )
    return notes
