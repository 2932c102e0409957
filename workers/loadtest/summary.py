"""What a load test found, from its exchanges. Metrics are those of `kernels.measure.latency`."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean, median
from typing import Any

import numpy as np

from kernels.load.exchange import CANCELLED, Exchange
from kernels.load.figures import LoadFigures
from kernels.load.generator import LoadTrace
from kernels.load.lag import MAX_LAG_MS
from kernels.measure.intervals import STUDENT, percentile, percentile_interval
from kernels.measure.latency import ServedBatch
from workers.documents.load import OF_WINDOWS, GeneratorLag, LoadFailure, LoadMetric, LoadOutcome, LoadTokens
from workers.documents.measurement import Interval
from workers.documents.workload import Objective, unit_of
from workers.stats.dependence import answered_together, judge_dependent, load_inefficiency
from workers.stats.intervals import SHOWN_PERCENTILES, count_over, meets, objective_value
from workers.stats.verdicts import CONFIDENCE

RESAMPLES = 400
BATCHES = 10
"""Windows of equal length whose rates give the interval of throughput (batch means)."""
MIN_INTERVAL_SECONDS = 2.0


class LoadSummary(LoadFigures):
    """What is judged of a load test, of all its rounds together: percentiles, verdicts, and their intervals."""

    def __init__(self, sent: LoadTrace, usd_per_hour: float | None = None, more: Sequence[LoadTrace] = ()) -> None:
        super().__init__([sent, *more])
        self._usd_per_hour = usd_per_hour
        if not self.open_loop:
            self.answered.sort(key=lambda answer: _first_ns(*answer))

    def grouped(self, metric: str, n: int | None = None) -> list[list[float]]:
        """A metric's samples, one list for each request, or for each second of metrics of the whole server."""
        if metric in OF_WINDOWS:
            return [[value] for value in self._windows(metric)]
        return [samples for samples in self._requests(metric, n) if samples]

    def _windows(self, metric: str) -> list[float]:
        """Tokens per second in each whole second of the steady parts, or what a million of them cost then, in USD."""
        rates = np.bincount(self.token_times() // 10**9, minlength=int(self.seconds))[: int(self.seconds)]
        if metric == "throughput":
            return [float(rate) for rate in rates]
        if self._usd_per_hour is None:
            raise ValueError("cost_per_mtok needs the price of the GPU per hour")
        return [self._usd_per_hour / (max(float(rate), 1e-9) * 3600) * 1e6 for rate in rates]

    @property
    def tokens_per_second_interval(self) -> Interval | None:
        """The 95 % interval of `tokens_per_second` by batch means: Student's, of the rates in ten equal windows.

        None below MIN_INTERVAL_SECONDS: the windows then hold too little to be independent.
        """
        if self.seconds < MIN_INTERVAL_SECONDS:
            return None
        edges = np.linspace(0, self.seconds * 1e9, BATCHES + 1)
        rates = np.histogram(self.token_times(), edges)[0] / (self.seconds / BATCHES)
        half = STUDENT[BATCHES - 1] * float(rates.std(ddof=1)) / math.sqrt(BATCHES)
        middle = self.tokens_per_second
        return Interval(value=middle, low=max(0.0, middle - half), high=middle + half)

    @property
    def in_flight(self) -> float:
        """The mean number of open requests in the steady parts, by Little's law."""
        inside = itertools.chain.from_iterable(map(_inside_ns, self.rounds))
        return sum(inside) / 1e9 / self.seconds if self.seconds else 0.0

    def goodput(self, objectives: Sequence[Objective]) -> float | None:
        """Requests per second that met every objective; None where none is about single requests."""
        single = [objective for objective in objectives if objective.metric not in OF_WINDOWS]
        return self.goodput_by(lambda served: meets(served, single)) if single and self.seconds else None

    def metric(self, metric: str, n: int | None = None, extra: Sequence[float] = ()) -> LoadMetric | None:
        """A metric with its percentiles; None without samples."""
        groups = self.grouped(metric, n)
        samples = list(itertools.chain.from_iterable(groups))
        if not samples:
            return None
        shown = sorted({*SHOWN_PERCENTILES, *extra})
        values = _values(groups)
        size = load_inefficiency(values, values, 1.0 if metric in OF_WINDOWS else self._together(metric, n))
        single = len(samples) == len(groups)
        intervals = [_of_singles(samples, p, size) for p in shown] if single else _of_groups(groups, shown, size)
        percentiles = {f"p{p:g}": interval for p, interval in zip(shown, intervals, strict=True)}
        return LoadMetric(metric=metric, n=n, unit=unit_of(metric), samples=len(samples), percentiles=percentiles)

    def outcome(self, objective: Objective, confidence: float = CONFIDENCE) -> LoadOutcome:
        """The verdict on one objective. A failed request counts as wholly beyond every limit of single requests."""
        windows, percentile = objective.metric in OF_WINDOWS, objective.percentile
        requests: Sequence[list[float] | None] = (
            self.grouped(objective.metric) if windows else self._requests(objective.metric, objective.n)
        )
        shares = [1.0 if request is None else count_over(objective, request) / len(request) for request in requests]
        samples = list(itertools.chain.from_iterable(request or () for request in requests))
        together = 1.0 if windows else self._together(objective.metric, objective.n)
        counts = self._gaps() if objective.metric == "itl" else ()
        judgement = judge_dependent(
            percentile, _values(requests), shares, confidence, together, objective.limit, counts
        )
        return LoadOutcome(
            objective=objective,
            value=objective_value(objective, samples) if samples else None,
            verdict=judgement.verdict,
            requests=len(shares),
            over=sum(share > 0 for share in shares),
            needed=judgement.needed,
            alike=judgement.inefficiency,
        )

    def _together(self, metric: str, n: int | None) -> float | None:
        """How many requests one batch answers, of those that gave this metric or failed; None for an open loop."""
        if self.open_loop:
            return None
        answers = [(exchange, served) for exchange, served, _ in self._by_request(metric, n)]
        took_s = [(exchange.end_ns - exchange.intended_ns) / 1e9 for exchange, _ in answers]
        return answered_together([_first_ns(*answer) / 1e9 for answer in answers], median(took_s)) if answers else 1.0

    def _requests(self, metric: str, n: int | None) -> list[list[float] | None]:
        """A metric's samples of each request, None where it failed, as `_by_request`."""
        return [samples for _, _, samples in self._by_request(metric, n)]

    def _gaps(self) -> list[int]:
        """How many gaps between tokens each request of `_by_request("itl")` has; of a failed one, should have had."""
        gaps = []
        for exchange, _, samples in self._by_request("itl", None):
            planned = exchange.planned
            expected = min(planned.output_tokens, planned.cancel_after or planned.output_tokens)
            gaps.append(max(1, expected - 1) if samples is None else len(samples))
        return gaps

    def _by_request(self, metric: str, n: int | None) -> list[tuple[Exchange, ServedBatch | None, list[float] | None]]:
        """Each request with a metric's samples, None where it failed, without those that gave none.

        In the order of due times; of a closed loop in that of first tokens, so that those of one batch are neighbours.
        """
        requests: list[tuple[Exchange, ServedBatch | None, list[float] | None]] = []
        for exchange, served in self.answered:
            if exchange.error:
                requests.append((exchange, None, None))
            elif served and (samples := self.samples_of(exchange, served, metric, n)):
                requests.append((exchange, served, samples))
        return requests

    def generator_lag(self) -> GeneratorLag:
        return GeneratorLag(**asdict(self.lag), limit=MAX_LAG_MS, void=self.lag.void)

    def failures(self) -> list[LoadFailure]:
        """Failures by kind, the most frequent first."""
        kinds: dict[str, list[str]] = {}
        for exchange in self.exchanges:
            if exchange.error:
                kinds.setdefault(exchange.error, []).append(exchange.sentence)
        failures = [LoadFailure(kind=kind, count=len(texts), sentence=texts[0]) for kind, texts in kinds.items()]
        return sorted(failures, key=lambda failure: -failure.count)

    def tokens(self) -> LoadTokens:
        """Tokens wanted and counted, over the requests that ended as planned."""
        completed = [exchange for exchange in self.exchanges if exchange.ended and exchange.ended != CANCELLED]
        prompts = [exchange.counted_prompt for exchange in completed]
        return LoadTokens(
            prompt_wanted=sum(exchange.planned.prompt_tokens for exchange in completed),
            prompt=None if None in prompts else sum(prompt or 0 for prompt in prompts),
            output_wanted=sum(exchange.planned.output_tokens for exchange in completed),
            output=sum(exchange.tokens for exchange in completed),
            several=sum(exchange.several_in_an_event for exchange in completed),
            uncounted=sum(exchange.counted_output is None for exchange in completed),
        )


def _values(requests: Sequence[Sequence[float] | None]) -> list[float]:
    """The mean of each request's samples; that of a failed one is the worst of all."""
    means = [fmean(request) for request in requests if request is not None]
    worst = max(means, default=0.0)
    return [worst if request is None else fmean(request) for request in requests]


def _first_ns(exchange: Exchange, served: ServedBatch | None) -> int:
    """When a request's first token came; when it ended, of one that failed."""
    return served.times_ns[0] if served else exchange.end_ns


def _inside_ns(sent: LoadTrace) -> list[int]:
    """How long each request was open within the steady part."""
    since, until = sent.counted_from_ns, sent.stopped_ns
    return [max(min(exchange.end_ns, until) - max(exchange.begun_ns, since), 0) for exchange in sent.exchanges]


def _of_singles(samples: Sequence[float], p: float, size: float) -> Interval:
    value, low, high = percentile_interval(samples, p, size)
    return Interval(value=value, low=low, high=high)


def _of_groups(groups: Sequence[Sequence[float]], shown: Sequence[float], size: float) -> list[Interval]:
    """Percentiles of pooled samples; their intervals resample `size` requests at once, since neighbours are alike."""
    drawn = max(1, int(len(groups) / size))
    owner = np.repeat(np.arange(len(groups)) * drawn // len(groups), [len(group) for group in groups])
    values = np.fromiter(itertools.chain.from_iterable(groups), dtype=float, count=len(owner))
    order = np.argsort(values, kind="stable")
    values, owner = values[order], owner[order]
    shares, generator, resampled = np.array(shown) / 100, np.random.default_rng(0), []
    for _ in range(RESAMPLES):
        weights = np.bincount(generator.integers(0, drawn, drawn), minlength=drawn)
        below = np.cumsum(weights[owner])
        resampled.append(values[np.searchsorted(below, below[-1] * shares, side="right").clip(max=len(values) - 1)])
    ordered: list[float] = values.tolist()
    middles = [percentile(ordered, p) for p in shown]
    ends = np.quantile(resampled, [0.025, 0.975], axis=0).tolist()
    return [
        Interval(value=middle, low=min(low, middle), high=max(high, middle))
        for middle, low, high in zip(middles, *ends, strict=True)
    ]


def records(sent: LoadTrace) -> list[dict[str, Any]]:
    """Every exchange as one line of JSON, those of the warm-up included and marked."""
    return [exchange.record() | {"counted": sent.is_steady(exchange.intended_ns)} for exchange in sent.exchanges]
