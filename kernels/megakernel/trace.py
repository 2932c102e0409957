"""The timeline of one token, as the kernel built with TRACE=1 leaves it. Imports without torch.

A raw trace is uint64 [sms, instructions, at least 4]: for each instruction the GPU's clock in nanoseconds at its start
(0), when its input had come (1), when its last weights were multiplied or its keys attended to (2), and at its end (3).
A mark that was not made is 0.
"""

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernels.megakernel.instructions import END, OP_NAMES
from kernels.megakernel.layout import Layout
from kernels.megakernel.program import Program
from kernels.megakernel.shape import ModelShape
from kernels.megakernel.structure import instruction_rows

Trace = NDArray[np.uint64]
START, LOADED, CONSUMED, DONE = range(4)
PHASES = ("wait", "work", "publish")
"""The phases between marks: wait (for input, weights or keys), work, publish (store the words that others wait for)."""
FORMER_PHASES = ("hand on",)
"""What the last phase was called in timelines of version 1, which are still read."""


class BadTrace(ValueError):
    """A file that is not a trace; the message gives the reason."""


class InstructionSpan(NamedTuple):
    """One instruction that left marks: its SM, operation and layer, its four marks in nanoseconds, and its fields."""

    sm: int
    op: str
    layer: int
    marks: list[int]
    fields: dict[str, int]


class Timeline(NamedTuple):
    """The instructions of a token on every SM, over a model's `layers`."""

    sms: int
    layers: int
    spans: list[InstructionSpan]


def save(path: Path, program: Program, trace: Trace) -> None:
    """Keeps a raw trace beside the program it was taken from, as npz; times from just before the first mark on."""
    tables = np.concatenate(program.instructions)
    marks = trace[..., : DONE + 1].astype(np.uint64)
    origin = marks[marks > 0].min(initial=np.iinfo(np.uint64).max) - np.uint64(1)
    np.savez_compressed(
        path,
        trace=np.where(marks > 0, marks - origin, 0).astype(np.uint32),
        program=tables,
        program_start=program.starts,
        shape=json.dumps(asdict(program.shape)),
        layout=json.dumps(asdict(program.layout)),
    )


def load(path: Path) -> tuple[Program, Trace]:
    """The program, without its sections of weights, and the raw trace. Raises BadTrace, or OSError for no file."""
    try:
        with np.load(path, allow_pickle=False) as kept:
            trace, tables, starts = kept["trace"], kept["program"], kept["program_start"]
            shape, layout = (json.loads(str(kept[name])) for name in ("shape", "layout"))
        program = Program(ModelShape(**shape), Layout(**layout), np.split(tables, starts[1:]))
    except (KeyError, ValueError, TypeError) as error:
        raise BadTrace(f"{path}: not a trace of the megakernel ({type(error).__name__})") from None
    lists = program.instructions
    if trace.ndim != 3 or len(trace) != len(lists) or trace.shape[1] < max(map(len, lists)):
        raise BadTrace(f"{path}: trace {trace.shape} does not fit {len(lists)} lists of instructions")
    return program, trace.astype(np.uint64)


def marks_of(marks: Trace) -> list[int]:
    """An instruction's marks in order. A missing mark gets the value of the next one."""
    found = [int(mark) for mark in marks[: DONE + 1]]
    for i in (CONSUMED, LOADED):
        found[i] = found[i] or (found[START] if i == LOADED else found[DONE])
    return found


def timeline_of(program: Program, trace: Trace) -> Timeline:
    """The timeline of a raw trace, without instructions that left no marks."""
    spans = []
    for sm, table in enumerate(program.instructions):
        for index, words in enumerate(instruction_rows(table)):
            marks = trace[sm, index]
            if words["op"] != END and marks[START] and marks[DONE]:
                fields = {key: words[key] for key in ("layer", "units", "k_tiles", "partial", "head", "split")}
                spans.append(InstructionSpan(sm, OP_NAMES[words["op"]], words["layer"], marks_of(marks), fields))
    return Timeline(len(program.instructions), program.shape.layers, spans)


def chrome_trace(timeline: Timeline) -> dict[str, Any]:
    """A document for chrome://tracing or ui.perfetto.dev: a row for each SM, with instructions and their phases.

    A document without `version` is of version 1.
    """
    origin = min((span.marks[START] for span in timeline.spans), default=0)
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": sm, "args": {"name": f"SM {sm}"}}
        for sm in range(timeline.sms)
    ]
    for span in timeline.spans:
        times = span.marks
        parts = [(f"{span.op} {span.layer}", times[START], times[DONE], span.fields)]
        parts += [(phase, times[i], times[i + 1], {}) for i, phase in enumerate(PHASES)]
        events += [_event(span, name, begin - origin, end - begin, args) for name, begin, end, args in parts]
    return {"version": 2, "traceEvents": events, "displayTimeUnit": "ns"}


def _event(span: InstructionSpan, name: str, begin_ns: int, ns: int, args: dict[str, int]) -> dict[str, Any]:
    times = {"ts": begin_ns / 1000, "dur": ns / 1000}
    return {"ph": "X", "name": name, "cat": span.op, "pid": 0, "tid": span.sm, **times, "args": args}


def write_chrome(path: Path, timeline: Timeline) -> None:
    """Its `chrome_trace` as JSON, gzipped where the path ends in .gz. Raises OSError where it cannot be written."""
    text = json.dumps(chrome_trace(timeline)).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


def read_chrome(path: Path) -> Timeline:
    """The timeline of what `write_chrome` wrote. Raises BadTrace, or OSError for no file."""
    try:
        text = path.read_bytes()
        events = json.loads(gzip.decompress(text) if path.suffix == ".gz" else text)["traceEvents"]
        spans: list[InstructionSpan] = []
        for event in events:
            if event["ph"] != "X":
                continue
            if event["name"] not in PHASES + FORMER_PHASES:
                start = round(event["ts"] * 1000)
                spans.append(
                    InstructionSpan(event["tid"], event["cat"], event["args"]["layer"], [start], event["args"])
                )
            else:  # the phases of an instruction follow it
                spans[-1].marks.append(spans[-1].marks[-1] + round(event["dur"] * 1000))
    except (KeyError, ValueError, TypeError, IndexError, EOFError, gzip.BadGzipFile) as error:
        raise BadTrace(f"{path}: not a timeline of the megakernel ({type(error).__name__})") from None
    if not spans or any(len(span.marks) != DONE + 1 or span.op not in OP_NAMES for span in spans):
        raise BadTrace(f"{path}: not a timeline of the megakernel: its events are others")
    return Timeline(1 + max(span.sm for span in spans), max(span.layer for span in spans), spans)


def summary(timeline: Timeline) -> dict[str, tuple[float, float, float]]:
    """Microseconds of each operation that the mean SM spends in each of PHASES, in one token."""
    spent: dict[str, np.ndarray] = {}
    for span in timeline.spans:
        spent[span.op] = spent.get(span.op, np.zeros(3)) + np.diff(span.marks)
    return {name: tuple(each / 1000 / timeline.sms) for name, each in spent.items()}


def drawing(timeline: Timeline, layer: int, sms: Sequence[int], width: int = 100) -> list[str]:
    """Lines of text: the activity of each of `sms` while the GPU is in `layer`, from left to right.

    A letter of LETTERS while it works, the small letter while it publishes, a dot while it waits for input.
    """
    spans = [span for span in timeline.spans if span.layer == layer]
    if not spans:
        return [f"layer {layer} left no marks"]
    begin, end = min(span.marks[START] for span in spans), max(span.marks[DONE] for span in spans)
    lines = [f"layer {layer}, {(end - begin) / 1000:.1f} µs from left to right; {LEGEND}"]
    for sm in sms:
        row = [" "] * width
        for first, last, letter in (each for span in spans if span.sm == sm for each in _phases(span)):
            low, high = (int((each - begin) * width / max(1, end - begin)) for each in (first, last))
            row[low : max(high, low + 1)] = letter * (max(high, low + 1) - low)
        lines.append(f"SM {sm:3} |{''.join(row[:width])}|")
    return lines


LETTERS = dict(zip(OP_NAMES, "EQAOGDHR", strict=True))
LEGEND = ", ".join(f"{letter} {name}" for name, letter in LETTERS.items() if name != "end") + ", . waits"


def _phases(span: InstructionSpan) -> Iterator[tuple[int, int, str]]:
    """(begin, end, letter) of every phase of an instruction."""
    letter = LETTERS[span.op]
    return zip(span.marks[:-1], span.marks[1:], (".", letter, letter.lower()), strict=True)
