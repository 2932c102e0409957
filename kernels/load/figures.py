"""What is computed from the requests of a load: its steady part, rates, samples, and the requests that failed."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kernels.load.exchange import CANCELLED, Exchange
from kernels.load.generator import LoadTrace
from kernels.load.lag import Lag
from kernels.measure.intervals import percentile_interval
from kernels.measure.latency import ServedBatch, samples_of

WARM_SHARE = 0.1
"""The share of a load's time, at its beginning, that is not counted where nobody says otherwise."""
FROM_THE_END = ("e2e", "batch_latency")
"""Metrics of a request's own end, which one that was cancelled has not."""


def drop_warm_up(sent: LoadTrace) -> LoadTrace:
    """A load of unknown length: its steady part begins WARM_SHARE of its time after the first request was due."""
    begin = sent.exchanges[0].intended_ns
    return replace(sent, counted_from_ns=begin + round(WARM_SHARE * (sent.stopped_ns - begin)))


@dataclass(frozen=True)
class LatencyObjective:
    """A limit for each request: TTFT of at most `ttft_ms` and TPOT of at most `tpot_ms`."""

    ttft_ms: float
    tpot_ms: float

    def is_met(self, served: ServedBatch) -> bool:
        """Whether a request stayed within both limits. A request of one token has no TPOT."""
        first, rest = samples_of(served, "ttft"), samples_of(served, "tpot")
        return first[0] <= self.ttft_ms and all(gap <= self.tpot_ms for gap in rest)


class LoadFigures:
    """A load that was sent, in rounds. Its steady part lasts from the warm-up's end until sending stopped: `exchanges`
    are the requests due in it, `seconds` its length, over all rounds.
    """

    def __init__(self, rounds: Sequence[LoadTrace]) -> None:
        self.rounds = list(rounds)
        self.exchanges = list(itertools.chain.from_iterable(round_.counted for round_ in self.rounds))
        self.seconds = sum(round_.steady_seconds for round_ in self.rounds)
        self.open_loop = any(exchange.planned.at_s is not None for sent in self.rounds for exchange in sent.exchanges)
        self.answered = [(exchange, exchange.served()) for exchange in self.exchanges]

    @property
    def served(self) -> list[tuple[Exchange, ServedBatch]]:
        """The requests of the steady part that gave a token and did not fail."""
        return [(exchange, served) for exchange, served in self.answered if served]

    def samples_of(self, exchange: Exchange, served: ServedBatch, metric: str, n: int | None = None) -> list[float]:
        """A metric's samples of one request. A cancelled request has no end of its own, so it gives none of its end."""
        if exchange.ended == CANCELLED and metric in FROM_THE_END:
            return []
        return samples_of(served, metric, n)

    def token_times(self) -> np.ndarray:
        """Times of the steady part's tokens in ns, the warm-up's requests included; rounds follow without a gap."""
        times, before_ns = [], 0
        for sent in self.rounds:
            since, until = sent.counted_from_ns, sent.stopped_ns
            times.append(np.array(sent.token_times_ns(since, until), dtype=np.int64) - since + before_ns)
            before_ns += max(until - since, 0)
        return np.concatenate(times)

    @property
    def tokens_per_second(self) -> float:
        """Tokens that came in the steady part, by its seconds."""
        return self._rate(len(self.token_times()))

    @property
    def requests_per_second(self) -> float:
        """Requests that were due in the steady part, by its seconds."""
        return self._rate(len(self.exchanges))

    @property
    def ended_per_second(self) -> float:
        """Requests that ended in the steady part, those of the warm-up included, by its seconds."""
        ends = ((sent, exchange.end_ns) for sent in self.rounds for exchange in sent.exchanges if exchange.ended)
        return self._rate(sum(sent.is_steady(end_ns) for sent, end_ns in ends))

    def goodput_by(self, is_good: Callable[[ServedBatch], bool]) -> float:
        """Requests that were due in the steady part, ended as planned and kept a promise, by its seconds."""
        return self._rate(sum(is_good(served) for exchange, served in self.served if exchange.ended != CANCELLED))

    def _rate(self, count: int) -> float:
        return count / self.seconds if self.seconds else 0.0

    @property
    def unlike(self) -> list[Exchange]:
        """All requests that failed, or whose answer has another number of tokens than was asked for."""
        sent = itertools.chain.from_iterable(round_.exchanges for round_ in self.rounds)
        return [exchange for exchange in sent if exchange.error or exchange.tokens != exchange.planned.output_tokens]

    def percentiles(self, metric: str, n: int | None = None) -> dict[str, float] | None:
        """p50 and p99 of a latency metric in ms; None without samples."""
        samples = [value for exchange in self.served for value in self.samples_of(*exchange, metric, n)]
        return percentiles(samples) if samples else None

    @property
    def lag(self) -> Lag:
        """How late the generator was itself."""
        return Lag.of(self.rounds)


def percentiles(samples: Sequence[float]) -> dict[str, float]:
    """p50 and p99, each sorted[floor(n·p)], to a thousandth."""
    return {f"p{percent}": round(percentile_interval(samples, percent)[0], 3) for percent in (50, 99)}
