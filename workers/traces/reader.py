"""Reads a Chrome trace of torch.profiler as a stream, so that gigabytes of JSON never lie in memory."""

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import ijson

from workers.traces.labels import PREFIX

_LAUNCHES = ("cuda_runtime", "cuda_driver")
_DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")


class HostSpan(NamedTuple):
    """A stretch of host time in µs: an operation, or one of our scopes (`annotation`)."""

    start: float
    end: float
    name: str
    annotation: bool


class HostLaunch(NamedTuple):
    """A host call that put work on the GPU; `correlation` finds the work. Times in µs."""

    at: float
    correlation: int
    name: str
    duration: float = 0.0


class Kernel(NamedTuple):
    """Work on the GPU; times in µs."""

    start: float
    duration: float
    correlation: int
    name: str
    stream: int = 0
    gpu: int = 0


@dataclass
class Trace:
    """A trace's spans and launches by host thread, and its kernels."""

    spans: dict[Any, list[HostSpan]] = field(default_factory=lambda: defaultdict(list))
    launches: dict[Any, list[HostLaunch]] = field(default_factory=lambda: defaultdict(list))
    kernels: list[Kernel] = field(default_factory=list)

    def of_gpu(self, number: int) -> "Trace":
        """The same with the kernels of one GPU alone."""
        return replace(self, kernels=[kernel for kernel in self.kernels if kernel.gpu == number])


def events(path: Path) -> Iterator[dict[str, Any]]:
    """The events of a Chrome trace (`.json` or `.json.gz`), one at a time."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        yield from ijson.items(stream, "traceEvents.item", use_float=True)


def read(path: Path) -> Trace:
    """The spans, launches and kernels of a trace. Raises ijson.JSONError when the file is no JSON."""
    trace = Trace()
    for event in events(path):
        if event.get("ph") == "X":
            _take(trace, event)
    trace.kernels.sort()
    return trace


def _take(trace: Trace, event: dict[str, Any]) -> None:
    category, name, start = event.get("cat"), event["name"], float(event["ts"])
    duration, thread = float(event.get("dur", 0)), event.get("tid")
    if category == "cpu_op":
        trace.spans[thread].append(HostSpan(start, start + duration, name, False))
    elif category == "user_annotation" and name.startswith(PREFIX):
        trace.spans[thread].append(HostSpan(start, start + duration, name, True))
    elif category in _LAUNCHES and "correlation" in event.get("args", {}):
        trace.launches[thread].append(HostLaunch(start, event["args"]["correlation"], name, duration))
    elif category in _DEVICE_WORK:
        facts = event.get("args", {})
        place = facts.get("stream", 0), facts.get("device", 0)
        trace.kernels.append(Kernel(start, duration, facts.get("correlation", -1), name, *place))


def shorten(source: Path, target: Path, most_bytes: int) -> Path:
    """Copies the first events of a trace, up to about `most_bytes` of JSON, into a `.json.gz` that viewers open."""
    encode = json.JSONEncoder(separators=(",", ":")).encode
    with gzip.open(target, "wt", encoding="utf-8", compresslevel=6) as stream:
        stream.write('{"traceEvents": [')
        written = 0
        for event in events(source):
            text = encode(event)
            if written + len(text) > most_bytes:
                break
            stream.write("," + text if written else text)
            written += len(text) + 1
        stream.write("]}")
    return target
