"""The current device: what it is, and its clocks, power and other programs while something is measured.

Imports torch only when needed.
"""

import functools
import itertools
import math
import operator
import os
import platform
import statistics
import subprocess
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kernels.hardware import Gpu, class_of
from kernels.measure import nvml, other_programs
from kernels.measure.gpu_entry import gpu_of

if TYPE_CHECKING:
    import torch

_THROTTLES = {
    0x0000000000000004: "software power cap",
    0x0000000000000008: "hardware slowdown",
    0x0000000000000020: "software thermal slowdown",
    0x0000000000000040: "hardware thermal slowdown",
    0x0000000000000080: "hardware power brake",
}
"""NVML's clocks-event reasons that mean slower than requested."""
_SAMPLES_PER_SIGHT = 5
"""Other programs are looked for at every fifth sample, since listing processes takes longer than reading clocks."""


def environment_info(index: int = 0, device: str | None = None) -> dict[str, Any]:
    """The environment: device, libraries and commit, in the shape of `workers.documents.measurement.Environment`.

    `device` is cuda or cpu; None takes the GPU if there is one. `index` counts visible GPUs.
    """
    import torch

    on_gpu = torch.cuda.is_available() if device is None else device.startswith("cuda")
    facts = _gpu_facts(index) if on_gpu else _cpu_facts()
    return facts | {
        "lease_id": os.environ.get("WORKBENCH_LEASE_ID") or _boot_id(),
        "versions": _versions(on_gpu),
        "commit": commit(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def current_device() -> "tuple[torch.device, Gpu, dict[str, Any]]":
    """The current device: torch's device, its GPU entry, and the environment's facts."""
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return device, gpu_of(device), environment_info()


def _gpu_facts(index: int) -> dict[str, Any]:
    import torch

    properties = torch.cuda.get_device_properties(index)
    return {
        "device": properties.name,
        "gpu_class": class_of(properties.name),
        "gpu_uuid": f"GPU-{properties.uuid}",
        "driver": _driver(),
        "memory_gib": round(properties.total_memory / 2**30, 2),
    }


def _cpu_facts() -> dict[str, Any]:
    import psutil
    import torch

    usable, threads = len(os.sched_getaffinity(0)), torch.get_num_threads()
    fewer = f", {threads} {'thread' if threads == 1 else 'threads'}" if threads < usable else ""
    return {
        "device": f"{_cpu_name()}, {usable} cores{fewer}",
        "gpu_class": "cpu",
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 2),
    }


@functools.cache
def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


@functools.cache
def _boot_id() -> str:
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text().strip() if path.exists() else platform.node()


@functools.cache
def _driver() -> str:
    library = nvml.library()
    if library is not None:
        return str(library.nvmlSystemGetDriverVersion())
    return _output(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]).partition("\n")[0]


@functools.cache
def commit() -> str:
    """The commit of this code: WORKBENCH_COMMIT, or what git says; empty where neither tells."""
    return os.environ.get("WORKBENCH_COMMIT") or checked_out_commit(Path(__file__).parents[2])


def checked_out_commit(root: Path) -> str:
    """The commit checked out at `root`, with `-dirty` behind it when tracked files differ.

    Empty when `root` is not the top of a git checkout, as of an installed package inside another project.
    """
    git = ["git", "-C", str(root)]
    top = _output([*git, "rev-parse", "--show-toplevel"])
    if not top or Path(top).resolve() != root.resolve():
        return ""
    return _output([*git, "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"])


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _versions(on_gpu: bool) -> dict[str, str]:
    import torch

    found = {"python": platform.python_version(), "torch": torch.__version__}
    for package in ("kernel-workbench", "transformers", "triton", "cupy-cuda13x"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    if on_gpu:
        found |= {"cuda": str(torch.version.cuda), "cudnn": str(torch.backends.cudnn.version())}
    return found


class TelemetrySampler:
    """Samples clocks, power and temperature in the background while a `with` block runs.

    `summary()` fits `workers.documents.measurement.Telemetry`; what the machine does not tell is None. On a CPU
    `sm_mhz_*` is the cores' clock.
    """

    def __init__(self, device: str = "cuda", index: int = 0, interval: float = 0.05, gpus: int = 1) -> None:
        """`interval` in seconds. Of several `gpus`, from `index` on, power and other programs are those of all."""
        self._others = None if device.startswith("cuda") else _OtherPrograms()
        indexes = range(index, index + gpus)
        self._sample = _gpu_sampler(indexes) if device.startswith("cuda") else _cpu_sample
        self._look = _gpu_watcher(indexes) if device.startswith("cuda") else lambda: None
        self._sights: list[other_programs.Sight] = []
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
            if len(self._samples) % _SAMPLES_PER_SIGHT == 0 and (sight := self._look()) is not None:
                self._sights.append(sight)
            self._samples.append({"at": time.monotonic(), **self._sample()})
            if self._stop.wait(self._interval):
                return

    def summary(self, since_s: float = -math.inf, until_s: float = math.inf) -> dict[str, Any]:
        """Medians and extremes of the samples so far; with bounds, of those between two times of the monotonic clock.

        What is said of other programs is always of the whole time.
        """
        samples = [each for each in list(self._samples) if since_s <= each["at"] <= until_s]
        clocks, power, heat = ([each[name] for each in samples if name in each] for name in ("mhz", "watts", "celsius"))
        reasons = 0
        for sample in samples:
            reasons |= int(sample.get("throttle", 0))
        return {
            "sm_mhz_median": statistics.median(clocks) if clocks else None,
            "sm_mhz_min": min(clocks, default=None),
            "sm_mhz_max": max(clocks, default=None),
            "power_w_median": statistics.median(power) if power else None,
            **power_record([(each["at"], each["watts"]) for each in samples if "watts" in each]),
            "temperature_c_max": max(heat, default=None),
            "throttle_reasons": [text for bit, text in _THROTTLES.items() if reasons & bit],
            "others_cpu_share": self._others.share() if self._others else None,
        } | other_programs.summary(list(self._sights), self._interval * _SAMPLES_PER_SIGHT)


def power_record(readings: Sequence[tuple[float, float]]) -> dict[str, float | None]:
    """The mean of readings (seconds, watts) weighted by time, by the trapezoidal rule, and the longest gap in seconds.

    Both are None of fewer than two readings.
    """
    pairs = list(itertools.pairwise(readings))
    whole = readings[-1][0] - readings[0][0] if pairs else 0.0
    if not whole:
        return {"power_w_mean": None, "power_gap_s": None}
    joules = sum((later - earlier) * (first + second) / 2 for (earlier, first), (later, second) in pairs)
    return {
        "power_w_mean": joules / whole,
        "power_gap_s": max(later - earlier for (earlier, _), (later, _) in pairs),
    }


class _OtherPrograms:
    """The share of the machine's CPU time that other programs used, from construction to `stop`."""

    def __init__(self) -> None:
        self._begin = self._now()
        self._end: tuple[float, float, float] | None = None

    def stop(self) -> None:
        self._end = self._now()

    def share(self) -> float:
        all_time, busy, own = (now - then for now, then in zip(self._end or self._now(), self._begin, strict=True))
        return min(1.0, max(0.0, (busy - own) / all_time)) if all_time > 0 else 0.0

    @staticmethod
    def _now() -> tuple[float, float, float]:
        """CPU seconds: of all cores, of busy cores, of this process."""
        import psutil

        times, own = psutil.cpu_times(), psutil.Process().cpu_times()
        idle = times.idle + getattr(times, "iowait", 0.0)
        guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # counted in user and nice as well
        total = sum(times) - guests
        return total, total - idle, own.user + own.system


def _cpu_sample() -> dict[str, float]:
    import psutil

    frequency = psutil.cpu_freq() if hasattr(psutil, "cpu_freq") else None
    return {"mhz": round(frequency.current, 1)} if frequency and frequency.current else {}


def _gpu_watcher(indexes: Sequence[int]) -> Any:
    handles = [nvml.handle(index) for index in indexes]
    return other_programs.watcher(nvml.library(), *handles) if all(handles) else lambda: None


def _gpu_sampler(indexes: Sequence[int]) -> Any:
    """Clock and temperature of the first GPU, the power of all, and every reason for which one of them slows down."""
    library, handles = nvml.library(), [nvml.handle(index) for index in indexes]
    if not all(handles):
        return lambda: {}

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
        return lambda: {}
    return sample
