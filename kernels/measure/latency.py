"""Latency metrics of served batches. Imports without torch.

Samples are what one served batch gave: the requests of a batch are answered at the same moments, so they count as one
sample, that of the request that waited longest. Times are in ms, measured from the *intended* send time. Formulas:
`docs/method.md`.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

NS_PER_MS = 1e6
FROM_SENDING = ("ttft", "ttf_n", "e2e", "batch_latency")
"""Metrics that count from the intended send time, so with the time that a request waits."""


@dataclass(frozen=True)
class ServedBatch:
    """One batch as it was served; nanoseconds of one clock.

    `intended_ns`: when the longest-waiting request of the batch was meant to be sent. `start_ns`: when the runner took
    the batch. `times_ns`: when each token could be read. `requests`: the batch's size. `tokens`: tokens counted per
    request (generated ones; of a model that generates none: one image, or the tokens that were read). `waited`: how
    many batches ran one after the other, this one included, from `intended_ns` to its end. Latencies of neighbours
    share them, so only those of every `waited`-th batch are independent of each other.
    """

    intended_ns: int
    start_ns: int
    times_ns: tuple[int, ...]
    requests: int
    tokens: int
    waited: int = 1

    @property
    def service_s(self) -> float:
        """Seconds from when the runner took the batch to its last token."""
        return (self.times_ns[-1] - self.start_ns) / 1e9


def samples_of(
    served: ServedBatch, metric: str, n: int | None = None, usd_per_hour: float | None = None
) -> list[float]:
    """A metric's values from one batch: one value, for itl every gap, none where the batch cannot give it.

    ttft, ttf_n, e2e and batch_latency count from the intended send time; throughput (tokens or images a second) and
    cost_per_mtok (USD) from the time the GPU was busy with the batch. Raises ValueError for an unknown metric or a
    missing price.
    """
    times = served.times_ns
    rate = served.requests * served.tokens / served.service_s
    match metric:
        case "ttft":
            return [_since(served, at) for at in times[:1]]
        case "ttf_n":
            return [_since(served, at) for at in times[n - 1 : n]] if n else []
        case "e2e" | "batch_latency":
            return [_since(served, at) for at in times[-1:]]
        case "tpot":
            between = _since(served, times[-1]) - _since(served, times[0])
            return [between / (len(times) - 1)] if len(times) > 1 else []
        case "itl":
            return [(later - earlier) / NS_PER_MS for earlier, later in itertools.pairwise(times)]
        case "throughput":
            return [rate]
        case "cost_per_mtok":
            if usd_per_hour is None:
                raise ValueError("cost_per_mtok needs the price of the GPU per hour")
            return [usd_per_hour / (rate * 3600) * 1e6]
    raise ValueError(f"unknown metric {metric!r}")


def _since(served: ServedBatch, at_ns: int) -> float:
    """Milliseconds from the intended send time to `at_ns`."""
    return (at_ns - served.intended_ns) / NS_PER_MS


def pool_samples(
    served: Sequence[ServedBatch], metric: str, n: int | None = None, usd_per_hour: float | None = None
) -> list[float]:
    """The samples of a metric over all served batches, in the order they were served."""
    return [value for request in served for value in samples_of(request, metric, n, usd_per_hour)]
