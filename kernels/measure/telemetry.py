"""The device while something is measured: its clocks, power and temperature, and the other programs on it."""

import contextlib
import functools
import itertools
import math
import operator
import os
import statistics
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from kernels.measure import nvml, other_programs
from kernels.measure.other_programs import GpuSnapshot

_THROTTLES = {
    0x0000000000000004: "software power cap",
    0x0000000000000008: "hardware slowdown",
    0x0000000000000020: "software thermal slowdown",
    0x0000000000000040: "hardware thermal slowdown",
    0x0000000000000080: "hardware power brake",
}
"""NVML's clocks-event reasons that make clocks slower than requested."""
_SAMPLES_PER_SNAPSHOT = 5
"""Other programs are looked for at every fifth sample, since listing processes takes longer than reading clocks."""

_MIN_CPU_SECONDS = 0.2
"""Cores count their time in hundredths of a second, so less of it tells no share."""


class TelemetrySampler:
    """Samples clocks, power and temperature during a `with` block; `summary()` fits
    `workers.documents.measurement.Telemetry`, None where not told. `sm_mhz_*` of a CPU is the cores' clock.
    """

    def __init__(self, device: str = "cuda", interval: float = 0.05, gpus: int = 1) -> None:
        """`interval` in s. Of the first visible `gpus`: the clock of one, power and other programs of all."""
        self._others = None if device.startswith("cuda") else _OthersCpuTime()
        self._sample = _gpu_sampler(range(gpus)) if device.startswith("cuda") else _cpu_sample
        self._gpu_snapshot = _snapshot_reader(range(gpus)) if device.startswith("cuda") else lambda: None
        self._snapshots: list[GpuSnapshot] = []
        self._interval = interval
        self._samples: list[dict[str, float]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="telemetry", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        if self._others:
            self._others.stop()

    def _work(self) -> None:
        while True:
            if len(self._samples) % _SAMPLES_PER_SNAPSHOT == 0 and (snapshot := self._gpu_snapshot()) is not None:
                self._snapshots.append(snapshot)
            self._samples.append({"at": time.monotonic(), **self._sample()})
            if self._stop.wait(self._interval):
                return

    def summary(self, since_s: float = -math.inf, until_s: float = math.inf) -> dict[str, Any]:
        """Medians and extremes so far, or between two monotonic times; of other programs, of the whole time."""
        samples = [sample for sample in list(self._samples) if since_s <= sample["at"] <= until_s]
        clocks, power, heat = (
            [sample[name] for sample in samples if name in sample] for name in ("mhz", "watts", "celsius")
        )
        reasons = 0
        for sample in samples:
            reasons |= int(sample.get("throttle", 0))
        return {
            "sm_mhz_median": statistics.median(clocks) if clocks else None,
            "sm_mhz_min": min(clocks, default=None),
            "sm_mhz_max": max(clocks, default=None),
            "power_w_median": statistics.median(power) if power else None,
            **power_record([(sample["at"], sample["watts"]) for sample in samples if "watts" in sample]),
            "temperature_c_max": max(heat, default=None),
            "throttle_reasons": [text for bit, text in _THROTTLES.items() if reasons & bit],
            "others_cpu_share": self._others.share() if self._others else None,
        } | other_programs.summary(list(self._snapshots), self._interval * _SAMPLES_PER_SNAPSHOT)


def power_record(readings: Sequence[tuple[float, float]]) -> dict[str, float | None]:
    """The mean of readings (s, W) by the trapezoidal rule, and the longest gap in s; None of fewer than two."""
    pairs = list(itertools.pairwise(readings))
    duration = readings[-1][0] - readings[0][0] if pairs else 0.0
    if not duration:
        return {"power_w_mean": None, "power_gap_s": None}
    joules = sum((later - earlier) * (first + second) / 2 for (earlier, first), (later, second) in pairs)
    return {
        "power_w_mean": joules / duration,
        "power_gap_s": max(later - earlier for (earlier, _), (later, _) in pairs),
    }


class _OthersCpuTime:
    """The share of this process's CPUs that others than its descendants used, from construction to `stop`."""

    def __init__(self) -> None:
        self._begin = self._now()
        self._end: tuple[float, float, float] | None = None

    def stop(self) -> None:
        self._end = self._now()

    def share(self) -> float | None:
        """None where the time was too short to tell."""
        all_time, busy, own = (now - then for now, then in zip(self._end or self._now(), self._begin, strict=True))
        return min(1.0, max(0.0, (busy - own) / all_time)) if all_time > _MIN_CPU_SECONDS else None

    @staticmethod
    def _now() -> tuple[float, float, float]:
        """CPU seconds: of all cores that this process may use, of these while busy, of this process and descendants."""
        import psutil

        total = idle = own = 0.0
        cores, usable = psutil.cpu_times(percpu=True), os.sched_getaffinity(0)
        for times in [times for core, times in enumerate(cores) if core in usable]:
            idle += times.idle + getattr(times, "iowait", 0.0)
            guests = getattr(times, "guest", 0.0) + getattr(
                times, "guest_nice", 0.0
            )  # counted in user and nice as well
            total += sum(times) - guests
        me = psutil.Process()
        for process in (me, *me.children(recursive=True)):
            with contextlib.suppress(psutil.Error):  # it has ended meanwhile, and counts as its parent's
                own += sum(process.cpu_times()[:4])
        return total, total - idle, own


def _cpu_sample() -> dict[str, float]:
    import psutil

    frequency = psutil.cpu_freq() if hasattr(psutil, "cpu_freq") else None
    return {"mhz": round(frequency.current, 1)} if frequency and frequency.current else {}


def _snapshot_reader(indexes: Sequence[int]) -> Any:
    handles = [nvml.handle(index) for index in indexes]
    return other_programs.snapshot_reader(nvml.library(), *handles) if all(handles) else lambda: None


def _gpu_sampler(indexes: Sequence[int]) -> Any:
    """Clock and temperature of the first GPU, the power of all, and every reason for which one of them slows down."""
    library, handles = nvml.library(), [nvml.handle(index) for index in indexes]
    if not all(handles):
        return dict

    def sample() -> dict[str, float]:
        reasons = [library.nvmlDeviceGetCurrentClocksThrottleReasons(handle) for handle in handles]
        return {
            "mhz": float(library.nvmlDeviceGetClockInfo(handles[0], library.NVML_CLOCK_SM)),
            "watts": sum(library.nvmlDeviceGetPowerUsage(handle) for handle in handles) / 1000,
            "celsius": float(library.nvmlDeviceGetTemperature(handles[0], library.NVML_TEMPERATURE_GPU)),
            "throttle": float(functools.reduce(operator.or_, reasons)),
        }

    try:
        sample()
    except library.NVMLError:  # a virtual machine may hide some of it
        return dict
    return sample
