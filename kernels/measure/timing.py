"""Times calls interleaved, cache cold, until the median's interval is narrow enough. On a GPU two CUDA events enclose a
sample, behind clean lines in the L2 and a stream held until the host has queued the call, so that launch gaps do not
count. On a CPU the clock is `time.perf_counter_ns`.
"""

import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from kernels.measure.intervals import median_interval

Call = Callable[[], Any]

LONGEST_FLUSH = 256 << 20
"""Bytes of the buffer that empties a GPU's cache: larger than any L2."""

WRITING_MS = 0.2
"""How much longer the stream is held where the host also queues the writing of inputs."""

CPU_FLUSH = 32 << 20
"""Bytes read between two samples on a CPU, or twice its last-level cache where that is smaller."""


@dataclass(frozen=True)
class Timing:
    """The median of the samples in ms with its 95 % interval; `settled` when the interval became narrow enough."""

    ms: float
    low: float
    high: float
    samples: int
    settled: bool


@dataclass
class StoppingRule:
    """Timing ends once every interval is at most `width` of its median, or after `seconds` (then at least three rounds)
    or `most` rounds, after `least`; calls are warmed up for `warmup_seconds`.
    """

    seconds: float = 2.0
    width: float = 0.02
    least: int = 10
    most: int = 2000
    warmup_seconds: float = 0.05
    shuffle: random.Random = field(default_factory=lambda: random.Random(0))


class Watch(Protocol):
    """What is done before and after each timed call of one variant, outside the timed span."""

    def prepare(self) -> None:
        """Makes new values for the call's inputs, on the current stream, before anything is held."""

    def before(self) -> None:
        """Writes them into the call's inputs, on the current stream."""

    def after(self, answer: Any) -> None:
        """Takes the answer, on the current stream, before the host has waited for anything."""


class Timer(Protocol):
    """Times one call, with its watch around it. Returns ms."""

    def __call__(self, call: Call, watch: Watch | None = None) -> float: ...


def time_interleaved(
    calls: Mapping[str, Call],
    device: torch.device | str,
    rule: StoppingRule | None = None,
    timer: Timer | None = None,
    watches: Mapping[str, Watch] | None = None,
    note: Callable[[str], None] = lambda name: None,
) -> dict[str, Timing]:
    """Times the calls in rounds, each in a new order, after a warm-up. `watches` by a call's name; `note` gets the name
    of the next call.
    """
    rule, watches = rule or StoppingRule(), watches or {}
    device = torch.device(device)
    timer = timer or timer_for(device)
    for name, call in calls.items():
        note(name)
        _warm(call, device, rule.warmup_seconds)
    samples: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    end = time.monotonic() + rule.seconds
    for done in range(1, rule.most + 1):
        rule.shuffle.shuffle(names)
        for name in names:
            note(name)
            samples[name].append(timer(calls[name], watches.get(name)))
        enough = done >= rule.least and all(_timing(sample, rule.width).settled for sample in samples.values())
        if enough or (time.monotonic() > end and done >= min(3, rule.least)):
            break
    return {name: _timing(times, rule.width) for name, times in samples.items()}


def _timing(samples: list[float], width: float) -> Timing:
    middle, low, high = median_interval(samples)
    return Timing(middle, low, high, len(samples), high - low <= width * middle)


def _warm(call: Call, device: torch.device, seconds: float) -> None:
    end = time.monotonic() + seconds
    for _ in range(100):
        call()
        _wait(device)
        if time.monotonic() > end:
            return


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timer_for(device: torch.device) -> Timer:
    """A timer with a cold cache for the device."""
    return CudaTimer(device) if device.type == "cuda" else CpuTimer()


class CpuTimer:
    """Wall time of a call after the last-level cache was filled with other data."""

    def __init__(self) -> None:
        self._other = torch.ones(_cpu_flush_bytes() // 8, dtype=torch.int64)

    def __call__(self, call: Call, watch: Watch | None = None) -> float:
        if watch is not None:
            watch.prepare()
            watch.before()
        self._other.sum()
        start = time.perf_counter_ns()
        answer = call()
        ms = (time.perf_counter_ns() - start) / 1e6
        if watch is not None:
            watch.after(answer)
        return ms


class CudaTimer:
    """Time between two CUDA events around a call, behind a flush of the L2. The watch writes inputs while the stream is
    held, and takes the answer behind the second event: unsynchronised work reads old inputs or is unfinished.
    """

    def __init__(self, device: torch.device) -> None:
        self._other = torch.ones(LONGEST_FLUSH // 4, dtype=torch.int32, device=device)
        self._cycles_per_ms = _cycles_per_ms()
        self._host_ms: dict[int, float] = {}

    def __call__(self, call: Call, watch: Watch | None = None) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        if watch is not None:
            watch.prepare()
        torch.cuda._sleep(int((self._hold_ms(call) + (WRITING_MS if watch else 0.0)) * self._cycles_per_ms))
        if watch is not None:
            watch.before()
        self._other.sum()
        start.record()
        queued = time.perf_counter_ns()
        answer = call()
        host_ms = (time.perf_counter_ns() - queued) / 1e6
        end.record()
        if watch is not None:
            watch.after(answer)
        end.synchronize()
        self._host_ms[id(call)] = max(self._host_ms.get(id(call), 0.0) * 0.9, host_ms)
        return start.elapsed_time(end)

    def _hold_ms(self, call: Call) -> float:
        return min(20.0, 0.05 + 1.5 * self._host_ms.get(id(call), 0.2))


HOST_BATCH = 25
"""Calls between two synchronisations, so that a full launch queue never blocks the host within a call."""


@torch.no_grad()
def host_us(call: Call, device: torch.device, calls: int = 1000, seconds: float = 0.2) -> float | None:
    """Median host µs of `calls` calls on a GPU, caches warm, or as many as `seconds` allow; None on a CPU."""
    if device.type != "cuda":
        return None
    spent: list[int] = []
    end = time.monotonic() + seconds
    while len(spent) < calls and (not spent or time.monotonic() < end):
        _wait(device)
        call()
        for _ in range(HOST_BATCH):
            start = time.perf_counter_ns()
            call()
            spent.append(time.perf_counter_ns() - start)
    _wait(device)
    return median_interval([ns / 1e3 for ns in spent])[0]


SETTLING_SECONDS, SETTLED_SAMPLES, BUSY_MS, MAX_BUSY_CALLS = 0.3, 9, 20.0, 1000
"""Work before the first settled sample; samples; work between two of them in ms, and its most calls."""


@torch.no_grad()
def time_settled(call: Call, device: torch.device, timer: Timer | None = None) -> Timing | None:
    """A call's time, cache cold, while the GPU does that work without a pause, clocks down; None on a CPU."""
    if device.type != "cuda" and timer is None:
        return None
    timer = timer or timer_for(device)
    repeats = max(1, min(MAX_BUSY_CALLS, round(BUSY_MS / max(timer(call), 1e-6))))
    until = time.monotonic() + SETTLING_SECONDS
    while time.monotonic() < until:
        _repeat(call, repeats)
        _wait(device)
    samples = []
    for _ in range(SETTLED_SAMPLES):
        _repeat(call, repeats)
        samples.append(timer(call))
    return _timing(samples, StoppingRule.width)


def _repeat(call: Call, repeats: int) -> None:
    for _ in range(repeats):
        call()


def _cycles_per_ms(cycles: int = 2_000_000) -> float:
    """Cycles of `torch.cuda._sleep` in a millisecond, measured."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(2):
        start.record()
        torch.cuda._sleep(cycles)
        end.record()
        end.synchronize()
    return cycles / start.elapsed_time(end)


def _cpu_flush_bytes() -> int:
    try:
        cache = os.sysconf("SC_LEVEL3_CACHE_SIZE")
    except (ValueError, OSError):
        cache = 0
    return min(CPU_FLUSH, 2 * cache) if cache > 0 else CPU_FLUSH
