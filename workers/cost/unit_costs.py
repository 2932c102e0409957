"""Unit costs of one GPU from what it serves per second at one load.

Split rule: the whole hour of the GPU is charged to whatever is counted. So the prices of input, of output and of all
tokens are three readings of one bill: they are never added, and 1 / all = 1 / input + 1 / output.
"""

from collections.abc import Sequence

import numpy as np

from workers.cost.pricing import usd_per_mtok
from workers.documents.measurement import Interval
from workers.documents.money import CostKey
from workers.stats.intervals import bootstrap, ratio_across_processes


def scale_interval(interval: Interval, by: float) -> Interval:
    return Interval(value=interval.value * by, low=interval.low * by, high=interval.high * by)


def cost_per(rate: Interval, usd_per_hour: float, units: float) -> Interval:
    """USD for `units` at `rate` of them per second: units · usd_per_hour / (3600 · rate)."""
    usd = units * usd_per_hour / 3600
    return Interval(value=usd / rate.value, low=usd / rate.high, high=usd / rate.low)


def per_million(rate: Interval, usd_per_hour: float) -> Interval:
    return Interval(
        value=usd_per_mtok(usd_per_hour, rate.value),
        low=usd_per_mtok(usd_per_hour, rate.high),
        high=usd_per_mtok(usd_per_hour, rate.low),
    )


def per_conversation_hour(usd_per_hour: float, users: int) -> Interval:
    """USD for an hour of one user at a load of `users`: a point, since their number is set, not measured."""
    cost = usd_per_hour / users
    return Interval(value=cost, low=cost, high=cost)


def token_costs(read: Interval, written: Interval, usd_per_hour: float) -> dict[CostKey, Interval]:
    """USD per million output tokens, input tokens, and tokens of both kinds (blended by the measured mix).

    `read` and `written` are tokens per second. Both follow the same requests, so their low ends belong together.
    """
    both = Interval(value=read.value + written.value, low=read.low + written.low, high=read.high + written.high)
    return {
        "output-tokens": per_million(written, usd_per_hour),
        "input-tokens": per_million(read, usd_per_hour),
        "all-tokens": per_million(both, usd_per_hour),
    }


def rate_interval(rate: float, per_batch: Sequence[float], medians: Sequence[float] = ()) -> Interval:
    """A measured rate per second with its 95 % interval.

    `per_batch`: the rate of each served batch. The rate over all of them is their harmonic mean, n / Σ 1/r, with the
    percentile bootstrap's interval. `medians`: of the first objective, one a process. From three processes on the
    interval is widened to hold their spread (`ratio_across_processes`). Fewer than two batches give a point.
    """
    low = high = 1.0
    if len(per_batch) > 1:
        seconds = np.asarray(per_batch, dtype=float)[:, None] ** -1
        interval = bootstrap(lambda rows: 1 / np.mean(rows[..., 0], axis=-1), seconds)
        low, high = interval.low / interval.value, interval.high / interval.value
    if len(medians) >= 3:
        middle = float(np.exp(np.mean(np.log(medians))))
        spread = ratio_across_processes([median / middle for median in medians])
        low, high = min(low, 1 / spread.high, spread.low), max(high, 1 / spread.low, spread.high)
    return Interval(value=rate, low=rate * min(low, 1.0), high=rate * max(high, 1.0))


def request_seconds(ttft_ms: float, tpot_ms: float, lengths: tuple[int, int], prompt: int) -> float:
    """Modelled seconds of a request of `lengths` (prompt, output), from medians measured at a prompt of `prompt`.

    ttft · prompt' / prompt + tpot · (output' − 1): reading grows with the prompt, each token takes as long as measured.
    Attention's growth with length is left out, so far beyond the measured lengths this is too short.
    """
    return (ttft_ms * lengths[0] / prompt + tpot_ms * (lengths[1] - 1)) / 1000
