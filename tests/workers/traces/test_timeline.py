"""The timeline of a traced request: rows without overlap, every event where the trace has it, small, and bounded."""

import gzip
import json

import pytest

from workers.harness.context import Context
from workers.traces import timeline
from workers.traces.reader import HostLaunch, HostSpan, Kernel, Trace, read

KERNELS = [Kernel(10.0, 5.0, 1, "gemm", 7), Kernel(12.0, 6.0, 2, "norm", 7), Kernel(11.0, 2.0, 3, "copy", 9)]


def traced(kernels=KERNELS):
    result = Trace(kernels=list(kernels))
    result.launches[5] += [HostLaunch(1.0, 1, "cudaLaunchKernel", 2.0), HostLaunch(4.0, 2, "cudaLaunchKernel", 2.0)]
    result.spans[5] += [
        HostSpan(0.0, 8.0, "wb:step:prefill:", True),
        HostSpan(0.2, 7.5, "wb:own::TinyLM", True),
        HostSpan(0.5, 7.0, "wb:own:mlp:TinyMLP", True),
        HostSpan(0.6, 6.9, "aten::linear", False),
        HostSpan(0.7, 3.0, "aten::mm", False),
    ]
    return result


def unpacked(document):
    for lane in document["lanes"]:
        for number, row in enumerate(lane["rows"]):
            at = 0
            for gap, duration, name in zip(row["gaps"], row["durations"], row["events"], strict=True):
                at += gap
                yield lane["name"], number, at, at + duration, document["names"][name]


def test_every_event_stands_where_the_trace_has_it():
    document, lanes, sentence = timeline.build(traced())
    assert sorted(unpacked(document)) == [
        ("GPU stream 7", 0, 10_000, 15_000, "gemm"),
        ("GPU stream 7", 1, 12_000, 18_000, "norm"),  # overlaps: a row of its own
        ("GPU stream 9", 0, 11_000, 13_000, "copy"),
        ("Launches", 0, 1_000, 3_000, "cudaLaunchKernel"),
        ("Launches", 0, 4_000, 6_000, "cudaLaunchKernel"),
        ("Modules", 0, 0, 8_000, "prefill"),
        ("Modules", 1, 200, 7_500, "TinyLM"),
        ("Modules", 2, 500, 7_000, "mlp (TinyMLP)"),
        ("Operations of the host", 0, 600, 6_900, "aten::linear"),  # aten::mm lies inside
    ]
    assert document["duration_ns"] == 18_000
    assert {lane.name: lane.busy_ms for lane in lanes}["GPU stream 7"] == pytest.approx(0.008)
    assert sentence == ""


def test_a_long_or_wide_trace_keeps_its_first_events_and_says_so():
    kernels = [Kernel(100.0 + 2 * index, 1.0, index, "k" * 999, 7) for index in range(timeline.MAX_EVENTS + 500)]
    document, lanes, sentence = timeline.build(Trace(kernels=kernels))
    assert lanes[0].events == timeline.MAX_EVENTS
    assert "20,500 events the timeline shows 20,000, the first 40 ms" in sentence
    assert len(gzip.compress(json.dumps(document).encode())) < 2**17
    assert len(document["names"][0]) == timeline.LONGEST_NAME
    at_once = [Kernel(1.0 + index, 1000.0, index, "k", 7) for index in range(timeline.MAX_ROWS + 2)]
    document, _, sentence = timeline.build(Trace(kernels=at_once))
    assert len(document["lanes"][0]["rows"]) == timeline.MAX_ROWS
    assert sentence.startswith("Of 10 events the timeline shows 8")


def test_trace_and_timeline_are_kept_and_the_reader_knows_streams(tmp_path):
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 5, "dur": 3, "args": {"correlation": 4, "stream": 7}}
    path = tmp_path / "trace-0.json.gz"
    with gzip.open(path, "wt") as stream:
        json.dump({"traceEvents": [kernel]}, stream)
    context = Context(tmp_path, tmp_path, seconds=60)
    kept, shown = timeline.keep(path, read(path), context, "plan-")
    assert [item.name for item in context.saved] == ["plan-trace.json.gz", "plan-timeline.json.gz"]
    assert [kept, shown.file] == context.saved
    assert [(lane.name, lane.events) for lane in shown.lanes] == [("GPU stream 7", 1)]
    assert timeline.keep(path, Trace(), context)[1] is None
