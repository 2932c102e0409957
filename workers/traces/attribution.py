"""Attributes each kernel to the scope and the operation that were running when it was launched."""

from collections.abc import Iterator
from typing import NamedTuple

from workers.traces.labels import UNATTRIBUTED, label, parse_scope
from workers.traces.reader import HostLaunch, HostSpan, Trace

GRAPH_LAUNCH = "GraphLaunch"


class DeviceWork(NamedTuple):
    """A piece of device time (on a CPU: of one outermost operation). `start` in µs orders pieces; `ms` is its time.

    `launch` is the correlation of the call that launched it. `graph` marks a kernel that a CUDA graph replayed: its
    `label` is then the scope around the replay.
    """

    start: float
    label: str
    phase: str
    kernel: str
    ms: float
    launch: int = -1
    graph: bool = False


class _Owner(NamedTuple):
    label: str
    phase: str
    graph: bool


def attribute(trace: Trace) -> list[DeviceWork]:
    """The work of every kernel by label and phase; of the host's operations when the trace holds no kernel.

    A kernel whose launch the trace lacks is unattributed, in the phase of the kernel before it.
    """
    if not trace.kernels:
        return sorted(work for spans in trace.spans.values() for work in _host_work(spans))
    owners: dict[int, _Owner] = {}
    for thread, launches in trace.launches.items():
        owners.update(_owners(trace.spans.get(thread, []), launches))
    attributed: list[DeviceWork] = []
    for kernel in trace.kernels:
        last = attributed[-1].phase if attributed else ""
        owner = owners.get(kernel.correlation, _Owner(UNATTRIBUTED, last, False))
        attributed.append(
            DeviceWork(
                kernel.start,
                owner.label,
                owner.phase,
                kernel.name,
                kernel.duration / 1000,
                kernel.correlation,
                owner.graph,
            )
        )
    return attributed


class _Stack:
    def __init__(self, phase: str) -> None:
        self._open: list[HostSpan] = []
        self._phase = phase

    def enter(self, span: HostSpan) -> None:
        self.leave(span.start)
        self._open.append(span)
        scope = parse_scope(span.name) if span.annotation else None
        if scope is not None and scope.kind == "step":
            self._phase = scope.name

    def leave(self, now: float) -> None:
        while self._open and self._open[-1].end <= now:
            self._open.pop()

    @property
    def operation(self) -> HostSpan | None:
        """The outermost operation inside the innermost scope."""
        outermost = None
        for span in reversed(self._open):
            if span.annotation:
                break
            outermost = span
        return outermost

    def owner(self, operation: str) -> tuple[str, str]:
        """Label and phase of `operation` at this moment. A unit takes precedence over modules inside it."""
        scopes = [scope for span in self._open if span.annotation and (scope := parse_scope(span.name))]
        named = [scope for scope in scopes if scope.kind != "step"]
        unit = next((scope for scope in named if scope.kind == "unit"), None)
        return label(unit or (named[-1] if named else None), operation, self._phase), self._phase


def _first_phase(spans: list[HostSpan]) -> str:
    for span in spans:
        scope = parse_scope(span.name) if span.annotation else None
        if scope is not None and scope.kind == "step":
            return scope.name
    return "forward"


def _order_spans(spans: list[HostSpan]) -> list[HostSpan]:
    return sorted(spans, key=lambda span: (span.start, -span.end, not span.annotation))


def _host_work(spans: list[HostSpan]) -> Iterator[DeviceWork]:
    ordered = _order_spans(spans)
    stack = _Stack(_first_phase(ordered))
    for span in ordered:
        stack.enter(span)
        if not span.annotation and stack.operation is span:
            name, phase = stack.owner(span.name)
            yield DeviceWork(span.start, name, phase, span.name, (span.end - span.start) / 1000)


def _owners(spans: list[HostSpan], launches: list[HostLaunch]) -> dict[int, _Owner]:
    ordered = _order_spans(spans)
    stack = _Stack(_first_phase(ordered))
    owners: dict[int, _Owner] = {}
    position = 0
    for launch in sorted(launches):
        while position < len(ordered) and ordered[position].start <= launch.at:
            stack.enter(ordered[position])
            position += 1
        stack.leave(launch.at)
        operation = stack.operation
        name, phase = stack.owner(operation.name if operation else "")
        owners[launch.correlation] = _Owner(name, phase, GRAPH_LAUNCH in launch.name)
    return owners
