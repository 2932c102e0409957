"""The timeline of one traced request as the result page draws it: a small file of lanes, and its summary.

The file is JSON, compressed. `names` are the names of events; a lane has `rows`, whose events do not overlap. A row is
three lists of integers: `gaps` (ns from the start of the row's event before, the first from the timeline's start),
`durations` (ns) and `events` (places in `names`).
"""

import gzip
import json
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from workers.documents.base import Artifact
from workers.documents.profile import LaneSummary, RequestTimeline
from workers.harness.context import Context
from workers.traces import reader
from workers.traces.labels import parse_scope
from workers.traces.reader import HostSpan, Trace

MAX_EVENTS = 20_000
"""A browser draws these at once; of a longer trace the first ones are kept."""
MAX_ROWS = 8
"""Rows of a lane: nested scopes, or kernels that overlap."""
LONGEST_NAME = 160
MAX_TRACE_BYTES = 64 * 2**20
"""Bytes of JSON that a kept trace has, before compression."""


class _Event(NamedTuple):
    start: int
    end: int
    lane: tuple[int, str]
    name: str


def keep(path: Path, trace: Trace, context: Context, prefix: str = "") -> tuple[Artifact, RequestTimeline | None]:
    """Keeps the trace of `path`, read as `trace`, cut where very large, and its timeline, if an event is timed."""
    short = reader.shorten(path, path.with_name(f"{prefix}kept.json.gz"), MAX_TRACE_BYTES)
    kept = context.save_artifact(short, f"{prefix}trace.json.gz", "application/gzip")
    document, lanes, sentence = build(trace)
    if not lanes:
        return kept, None
    target = path.with_name(f"{prefix}timeline.json.gz")
    with gzip.open(target, "wt", encoding="utf-8") as stream:
        json.dump(document, stream, separators=(",", ":"))
    file = context.save_artifact(target, target.name, "application/gzip")
    shown = RequestTimeline(file=file, duration_ms=document["duration_ns"] / 1e6, lanes=lanes, sentence=sentence)
    return kept, shown


def build(trace: Trace) -> tuple[dict[str, Any], list[LaneSummary], str]:
    """The file's document, a summary of each lane, and the sentence about what was left out ("" when nothing was)."""
    events = sorted(_events(trace))
    kept = events[:MAX_EVENTS]
    if not kept:
        return {}, [], ""
    origin, end = kept[0].start, max(event.end for event in kept)
    names: dict[str, int] = {}
    lanes, summaries, dropped = [], [], 0
    for lane, group in groupby(sorted(kept, key=lambda event: (event.lane, event.start, -event.end)), _lane):
        rows, unplaced = _rows(list(group))
        dropped += unplaced
        lanes.append({"name": lane[1], "rows": [_columns(row, origin, names) for row in rows]})
        summaries.append(
            LaneSummary(name=lane[1], events=sum(map(len, rows)), busy_ms=_busy([e for row in rows for e in row]) / 1e6)
        )
    document = {"version": 1, "duration_ns": end - origin, "names": list(names), "lanes": lanes}
    return document, summaries, _left_out(len(events), len(kept) - dropped, (end - origin) / 1e6)


def _lane(event: _Event) -> tuple[int, str]:
    return event.lane


def _left_out(stride: int, kept: int, shown_ms: float) -> str:
    if kept == stride:
        return ""
    return f"Of {stride:,} events the timeline shows {kept:,}, the first {shown_ms:.3g} ms; the trace has more of them."


def _ns(microseconds: float) -> int:
    return round(microseconds * 1000)


def _event(start: float, end: float, lane: tuple[int, str], name: str) -> _Event:
    return _Event(_ns(start), _ns(end), lane, name[:LONGEST_NAME])


def _events(trace: Trace) -> Iterator[_Event]:
    """Everything that has a place: kernels by stream, then by host thread launches, operations and scopes."""
    for kernel in trace.kernels:
        yield _event(kernel.start, kernel.start + kernel.duration, (0, f"GPU stream {kernel.stream}"), kernel.name)
    threads = sorted({*trace.launches, *trace.spans}, key=str)
    for number, thread in enumerate(threads, start=1):
        of = f", host thread {number}" if len(threads) > 1 else ""
        for launch in trace.launches.get(thread, []):
            yield _event(launch.at, launch.at + launch.duration, (3 * number, f"Launches{of}"), launch.name)
        spans = trace.spans.get(thread, [])
        for span in _outermost(spans):
            yield _event(span.start, span.end, (3 * number + 1, f"Operations of the host{of}"), span.name)
        for span in spans:
            if span.annotation:
                yield _event(span.start, span.end, (3 * number + 2, f"Modules{of}"), _scope_name(span.name))


def _outermost(spans: Sequence[HostSpan]) -> Iterator[HostSpan]:
    """The operations that lie in no other operation."""
    ended = float("-inf")
    for span in sorted((span for span in spans if not span.annotation), key=lambda span: (span.start, -span.end)):
        if span.start >= ended:
            ended = span.end
            yield span


def _scope_name(record: str) -> str:
    scope = parse_scope(record)
    if scope is None:
        return record
    if scope.kind != "own":
        return scope.name
    return f"{scope.name} ({scope.owner})" if scope.name else scope.owner


def _rows(events: Sequence[_Event]) -> tuple[list[list[_Event]], int]:
    """The events, sorted by start, in rows without overlap; and how many found none among MAX_ROWS."""
    rows: list[list[_Event]] = []
    unplaced = 0
    for event in events:
        free = next((row for row in rows if row[-1].end <= event.start), None)
        if free is not None:
            free.append(event)
        elif len(rows) < MAX_ROWS:
            rows.append([event])
        else:
            unplaced += 1
    return rows, unplaced


def _columns(row: Sequence[_Event], origin: int, names: dict[str, int]) -> dict[str, list[int]]:
    starts = [origin, *(event.start for event in row)]
    return {
        "gaps": [here - before for before, here in pairwise(starts)],
        "durations": [event.end - event.start for event in row],
        "events": [names.setdefault(event.name, len(names)) for event in row],
    }


def _busy(events: Sequence[_Event]) -> int:
    """The ns in which at least one of the events runs."""
    total, ended = 0, events[0].start if events else 0
    for event in sorted(events):
        total += max(0, event.end - max(ended, event.start))
        ended = max(ended, event.end)
    return total
