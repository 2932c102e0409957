"""The timeline of one token on all GPUs, as the kernel built with TRACE=1 leaves it. Imports without torch.

A raw trace, of one GPU, is uint64 [sms, instructions, at least 4]: for each instruction the GPU's clock in nanoseconds
at its start (0), when its input had come (1), when its last weights were multiplied or its keys attended to (2), and at
its end (3). A mark that was not made is 0.
"""

import gzip
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernels.megakernel.program import Program
from kernels.megakernel.program.instructions import DOWN, GATE_UP, HEAD, OP_NAMES, OUT, QKV
from kernels.megakernel.program.layout import Layout
from kernels.megakernel.program.shape import ModelShape
from kernels.megakernel.proof.structure import instruction_rows

Trace = NDArray[np.uint64]
Recorded = Sequence[tuple[Program, Trace]]
"""For each GPU its program and the raw trace of it."""
START, LOADED, CONSUMED, DONE = range(4)
PHASES = ("wait", "work", "publish")
"""The phases between marks: wait (for input, weights or keys), work, publish (store the words that others wait for)."""


class BadTrace(ValueError):
    """A file that is not a trace; the message gives the reason."""


class InstructionSpan(NamedTuple):
    """One instruction that left marks: SM, operation, layer, four marks in ns, its fields, and its GPU."""

    sm: int
    op: str
    layer: int
    marks: list[int]
    fields: dict[str, int]
    gpu: int = 0


class Timeline(NamedTuple):
    """A token's instructions on every SM of every GPU, over `layers`; `sms` of one. Marks are by the first GPU's clock,
    off by `doubt_ns` at most. Older timelines have no `end`.
    """

    sms: int
    layers: int
    spans: list[InstructionSpan]
    gpus: int = 1
    doubt_ns: int = 0


def save(path: Path, recorded: Recorded) -> None:
    """Keeps the raw traces of all GPUs beside their programs, as npz; each from just before its first mark on."""
    lists = [table for program, _ in recorded for table in program.instructions]
    longest = max(trace.shape[1] for _, trace in recorded)
    kept = np.zeros((len(recorded), len(recorded[0][1]), longest, DONE + 1), dtype=np.uint32)
    for into, (_, trace) in zip(kept, recorded, strict=True):
        marks = trace[..., : DONE + 1].astype(np.uint64)
        origin = marks[marks > 0].min(initial=np.iinfo(np.uint64).max) - np.uint64(1)
        into[:, : marks.shape[1]] = np.where(marks > 0, marks - origin, 0)
    first = recorded[0][0]
    np.savez_compressed(
        path,
        trace=kept,
        program=np.concatenate(lists),
        program_start=np.cumsum([0, *map(len, lists[:-1])]),
        shape=json.dumps(asdict(first.shape)),
        layout=json.dumps(asdict(first.layout)),
    )


def load(path: Path) -> list[tuple[Program, Trace]]:
    """For each GPU the program, without its weights, and the raw trace. Raises BadTrace, or OSError for no file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            traces, tables, starts = file["trace"], file["program"], file["program_start"]
            shape, layout = (json.loads(str(file[name])) for name in ("shape", "layout"))
        parsed = ModelShape(**shape), Layout(**layout)
        lists = np.split(tables, starts[1:])
    except (KeyError, ValueError, TypeError) as error:
        raise BadTrace(f"{path}: not a trace of the megakernel ({type(error).__name__})") from None
    if traces.ndim == 3:  # written before there were several GPUs
        traces = traces[None]
    sms = traces.shape[1] if traces.ndim == 4 else 0
    if sms * len(traces) != len(lists) or traces.shape[2] < max(map(len, lists)):
        raise BadTrace(f"{path}: trace {traces.shape} does not fit {len(lists)} lists of instructions")
    programs = [Program(*parsed, lists[rank * sms : (rank + 1) * sms], rank=rank) for rank in range(len(traces))]
    return list(zip(programs, traces.astype(np.uint64), strict=True))


def marks_of(marks: Trace) -> list[int]:
    """An instruction's marks in order. A missing mark gets the value of the next one."""
    times = [int(mark) for mark in marks[: DONE + 1]]
    for i in (CONSUMED, LOADED):
        times[i] = times[i] or (times[START] if i == LOADED else times[DONE])
    return times


def timeline_of(recorded: Recorded) -> Timeline:
    """The timeline of the raw traces of all GPUs, without instructions that left no marks."""
    ranks, doubt = [_spans(program, trace) for program, trace in recorded], 0
    for rank, spans in enumerate(ranks[1:], 1):
        ahead, latest = _clock_ahead(ranks[0], spans)
        doubt = max(doubt, latest)
        ranks[rank] = [span._replace(gpu=rank, marks=[mark - ahead for mark in span.marks]) for span in spans]
    program = recorded[0][0]
    return Timeline(len(program.instructions), program.shape.layers, list(itertools.chain(*ranks)), len(ranks), doubt)


def _spans(program: Program, trace: Trace) -> list[InstructionSpan]:
    spans = []
    for sm, table in enumerate(program.instructions):
        for index, words in enumerate(instruction_rows(table)):
            marks = trace[sm, index]
            if marks[START] and marks[DONE]:
                fields = {key: words[key] for key in ("layer", "units", "k_tiles", "partial", "head", "split")}
                spans.append(InstructionSpan(sm, OP_NAMES[words["op"]], words["layer"], marks_of(marks), fields))
    return spans


def _clock_ahead(first: Sequence[InstructionSpan], other: Sequence[InstructionSpan]) -> tuple[int, int]:
    """By how many ns the clock of another GPU is ahead of the first one's, and how far that may be off: an input, a sum
    of both's partials, comes on neither before both made them, which bounds the difference at every exchange. The
    middle of the narrowest bounds is taken.
    """
    sent, read = zip(*(_exchanges(spans) for spans in (first, other)), strict=True)
    upper = [read[1][key] - sent[0][key] for key in read[1].keys() & sent[0].keys()]
    lower = [sent[1][key] - read[0][key] for key in read[0].keys() & sent[1].keys()]
    if not upper or not lower:
        return 0, 0
    low, high = max(lower), min(upper)
    return (low + high) // 2, (abs(high - low) + 1) // 2


def _exchanges(spans: Sequence[InstructionSpan]) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
    """When a GPU's last partials were multiplied, and when the first SM had the sum of all; by partials and layer."""
    sent: dict[tuple[str, int], int] = {}
    read: dict[tuple[str, int], int] = {}
    readers = {OP_NAMES[GATE_UP]: (OP_NAMES[OUT], 0), OP_NAMES[QKV]: (OP_NAMES[DOWN], 1)}
    readers[OP_NAMES[HEAD]] = readers[OP_NAMES[QKV]]
    for span in spans:
        if span.op in (OP_NAMES[OUT], OP_NAMES[DOWN]) and span.fields["units"]:
            key = span.op, span.layer
            sent[key] = max(sent.get(key, 0), span.marks[CONSUMED])
        elif span.op in readers and span.marks[LOADED] > span.marks[START]:
            of, before = readers[span.op]
            key = of, span.layer - before
            read[key] = min(read.get(key, span.marks[LOADED]), span.marks[LOADED])
    return sent, read


def chrome_trace(timeline: Timeline) -> dict[str, Any]:
    """A document for chrome://tracing or ui.perfetto.dev: a process for each GPU, a row for each SM."""
    origin = min((span.marks[START] for span in timeline.spans), default=0)
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "thread_name", "pid": gpu, "tid": sm, "args": {"name": f"SM {sm}"}}
        for gpu in range(timeline.gpus)
        for sm in range(timeline.sms)
    ]
    several: dict[str, Any] = {}
    if timeline.gpus > 1:
        several["clock_doubt_ns"] = timeline.doubt_ns
        events += [
            {"ph": "M", "name": "process_name", "pid": gpu, "args": {"name": f"GPU {gpu}"}}
            for gpu in range(timeline.gpus)
        ]
    for span in timeline.spans:
        times = span.marks
        parts = [(f"{span.op} {span.layer}", times[START], times[DONE], span.fields)]
        parts += [(phase, times[i], times[i + 1], {}) for i, phase in enumerate(PHASES)]
        events += [_event(span, name, begin - origin, end - begin, args) for name, begin, end, args in parts]
    return {"version": 2, "traceEvents": events, "displayTimeUnit": "ns"} | several


def _event(span: InstructionSpan, name: str, begin_ns: int, ns: int, args: dict[str, int]) -> dict[str, Any]:
    times = {"ts": begin_ns / 1000, "dur": ns / 1000}
    return {"ph": "X", "name": name, "cat": span.op, "pid": span.gpu, "tid": span.sm, **times, "args": args}


def write_chrome(path: Path, timeline: Timeline) -> None:
    """Writes its `chrome_trace` as JSON, gzipped where the path ends in .gz. Raises OSError where that fails."""
    text = json.dumps(chrome_trace(timeline)).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


def read_chrome(path: Path) -> Timeline:
    """The timeline of what `write_chrome` wrote. Raises BadTrace, or OSError for no file."""
    try:
        text = path.read_bytes()
        document = json.loads(gzip.decompress(text) if path.suffix == ".gz" else text)
        doubt = int(document.get("clock_doubt_ns", 0))
        spans: list[InstructionSpan] = []
        for event in document["traceEvents"]:
            if event["ph"] != "X":
                continue
            if event["name"] not in PHASES:
                start = round(event["ts"] * 1000)
                key = event["tid"], event["cat"], event["args"]["layer"]
                spans.append(InstructionSpan(*key, [start], event["args"], event["pid"]))
            else:  # the phases of an instruction follow it
                spans[-1].marks.append(spans[-1].marks[-1] + round(event["dur"] * 1000))
    except (KeyError, ValueError, TypeError, AttributeError, IndexError, EOFError, gzip.BadGzipFile) as error:
        raise BadTrace(f"{path}: not a timeline of the megakernel ({type(error).__name__})") from None
    if not spans or any(len(span.marks) != DONE + 1 or span.op not in OP_NAMES for span in spans):
        raise BadTrace(f"{path}: not a timeline of the megakernel: its events are others")
    sms, layers, gpus = (
        max(values) for values in zip(*((span.sm, span.layer, span.gpu) for span in spans), strict=True)
    )
    return Timeline(1 + sms, layers, spans, 1 + gpus, doubt)


def summary(timeline: Timeline) -> dict[str, tuple[float, float, float]]:
    """Microseconds of each operation that the mean SM spends in each of PHASES, in one token."""
    spent: dict[str, np.ndarray] = {}
    for span in timeline.spans:
        spent[span.op] = spent.get(span.op, np.zeros(3)) + np.diff(span.marks)
    return {name: tuple(ns / 1000 / timeline.sms / timeline.gpus) for name, ns in spent.items()}


def draw_activity(timeline: Timeline, layer: int, sms: Sequence[int], width: int = 100) -> list[str]:
    """Lines of text: each SM in `layer`; a letter of LETTERS at work, small while it publishes, a dot in wait."""
    spans = [span for span in timeline.spans if span.layer == layer]
    if not spans:
        return [f"layer {layer} left no marks"]
    begin, end = min(span.marks[START] for span in spans), max(span.marks[DONE] for span in spans)
    lines = [f"layer {layer}, {(end - begin) / 1000:.1f} µs from left to right; {LEGEND}"]
    if timeline.gpus > 1:
        lines.append(f"all GPUs by the clock of GPU 0, to ±{timeline.doubt_ns / 1000:.2f} µs")
    for gpu, sm in itertools.product(range(timeline.gpus), sms):
        row = [" "] * width
        of_sm = (span for span in spans if (span.gpu, span.sm) == (gpu, sm))
        for first, last, letter in itertools.chain.from_iterable(map(_phases, of_sm)):
            low, high = (int((time - begin) * width / max(1, end - begin)) for time in (first, last))
            row[low : max(high, low + 1)] = letter * (max(high, low + 1) - low)
        which = f"GPU {gpu} " if timeline.gpus > 1 else ""
        lines.append(f"{which}SM {sm:3} |{''.join(row[:width])}|")
    return lines


LETTERS = dict(zip(OP_NAMES, "EQAOGDHRX", strict=True))
LEGEND = ", ".join(f"{letter} {name}" for name, letter in LETTERS.items()) + ", . waits"


def _phases(span: InstructionSpan) -> Iterator[tuple[int, int, str]]:
    """(begin, end, letter) of every phase of an instruction."""
    letter = LETTERS[span.op]
    return zip(span.marks[:-1], span.marks[1:], (".", letter, letter.lower()), strict=True)
