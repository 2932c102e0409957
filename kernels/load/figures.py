"""What is computed from the requests of a load: rates, percentiles, goodput, and the requests that failed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernels.load.exchange import Exchange
from kernels.load.generator import Sent
from kernels.measure.intervals import percentile_interval
from kernels.measure.latency import Served, samples_of

WARM_SHARE = 0.1
"""The share of an open loop's requests, its first ones, that are not counted."""


@dataclass(frozen=True)
class LatencyPromise:
    """A limit for each request: TTFT of at most `ttft_ms` and TPOT of at most `tpot_ms`."""

    ttft_ms: float
    tpot_ms: float

    def kept(self, served: Served) -> bool:
        """Whether a request stayed within both limits. A request of one token has no TPOT."""
        first, rest = samples_of(served, "ttft"), samples_of(served, "tpot")
        return first[0] <= self.ttft_ms and all(each <= self.tpot_ms for each in rest)


@dataclass(frozen=True)
class Figures:
    """A load that was sent. Its steady part lasts from `since_ns` to `until_ns` of the monotonic clock."""

    sent: Sent
    since_ns: int
    until_ns: int

    @classmethod
    def of(cls, sent: Sent, users: int | None) -> "Figures":
        """Finds the steady part. `users` is None for an open loop, whose steady part is all but its first tenth.

        That of a closed loop begins when `users` requests have ended, as many as each user's first ones. It ends when
        no request is left to be sent.
        """
        begun = [each.intended_ns for each in sent.exchanges]
        if users:
            ends = sorted(each.end_ns for each in sent.exchanges)
            since = ends[min(users, len(ends)) - 1] if len(ends) > users else begun[0]
        else:
            since = begun[int(WARM_SHARE * len(begun))]
        return cls(sent, since, max(begun[-1], since + 1))

    @property
    def seconds(self) -> float:
        return (self.until_ns - self.since_ns) / 1e9

    @property
    def counted(self) -> list[Exchange]:
        """The requests that were due in the steady part."""
        return [each for each in self.sent.exchanges if self.since_ns <= each.intended_ns <= self.until_ns]

    @property
    def served(self) -> list[Served]:
        """The requests of the steady part that were answered."""
        return [served for each in self.counted if each.ended and (served := each.served())]

    @property
    def failed(self) -> list[Exchange]:
        """All requests that failed, or whose answer has another number of tokens than was asked for."""
        return [each for each in self.sent.exchanges if each.error or each.tokens != each.planned.output_tokens]

    @property
    def tokens_per_second(self) -> float:
        """Tokens that arrived in the steady part, over its seconds."""
        return len(self.sent.token_times_ns(self.since_ns, self.until_ns)) / self.seconds

    @property
    def requests_per_second(self) -> float:
        """Requests that ended in the steady part, over its seconds."""
        ends = (each.end_ns for each in self.sent.exchanges if each.ended)
        return sum(self.since_ns <= at < self.until_ns for at in ends) / self.seconds

    def goodput(self, promise: LatencyPromise) -> float:
        """Requests that were due in the steady part and kept the promise, over its seconds."""
        return sum(promise.kept(each) for each in self.served) / self.seconds

    def percentiles(self, metric: str, n: int | None = None) -> dict[str, float] | None:
        """p50 and p99 of a latency metric in ms; None without samples."""
        samples = [value for each in self.served for value in samples_of(each, metric, n)]
        return percentiles(samples) if samples else None

    @property
    def generator(self) -> dict[str, Any]:
        """The generator's own delays in ms at p99, in sending and in reading; of several processes, the largest."""
        sends = [percentiles(each.send_delays_ms or [0.0])["p99"] for each in self.sent.by_process]
        loops = [percentiles(each.loop_delays_ms or [0.0])["p99"] for each in self.sent.by_process]
        return {"processes": len(sends), "send_late_ms": max(sends), "read_late_ms": max(loops)}


def percentiles(samples: Sequence[float]) -> dict[str, float]:
    """p50 and p99, each sorted[floor(n·p)], to a thousandth."""
    return {f"p{each}": round(percentile_interval(samples, each)[0], 3) for each in (50, 99)}
