"""The timeline of one token, as the kernel built with TRACE=1 leaves it. Imports without torch.

A raw trace is uint64 [sms, instructions, at least 4]: for each instruction the GPU's clock in nanoseconds at its start
(0), when its input had come (1), when its last weights were multiplied or its keys attended to (2), and at its end (3).
A mark that was not made is 0.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.megakernel.instructions import END, OP_NAMES
from kernels.megakernel.layout import Layout
from kernels.megakernel.program import Program
from kernels.megakernel.shape import Shape
from kernels.megakernel.structure import rows_of

Trace = NDArray[np.uint64]
START, LOADED, CONSUMED, DONE = range(4)
PHASES = ("wait", "work", "hand on")
"""Between one mark and the next: waiting for input, weights or keys, storing what others wait for."""


class BadTrace(ValueError):
    """A file that is no trace; the message says why."""


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
        program = Program(Shape(**shape), Layout(**layout), np.split(tables, starts[1:]))
    except (KeyError, ValueError, TypeError) as error:
        raise BadTrace(f"{path}: not a trace of the megakernel ({type(error).__name__})") from None
    lists = program.instructions
    if trace.ndim != 3 or len(trace) != len(lists) or trace.shape[1] < max(map(len, lists)):
        raise BadTrace(f"{path}: trace {trace.shape} does not fit {len(lists)} lists of instructions")
    return program, trace.astype(np.uint64)


def marks_of(marks: Trace) -> list[int]:
    """An instruction's marks in order; one that was not made falls on the next that was."""
    found = [int(mark) for mark in marks[: DONE + 1]]
    for i in (CONSUMED, LOADED):
        found[i] = found[i] or (found[START] if i == LOADED else found[DONE])
    return found


def chrome_trace(program: Program, trace: Trace) -> dict[str, Any]:
    """A document for chrome://tracing or ui.perfetto.dev: a row for each SM; instructions, and in them their phases."""
    made = trace[..., START][trace[..., START] > 0]
    origin = int(made.min()) if made.size else 0
    events: list[dict[str, Any]] = []
    for sm, table in enumerate(program.instructions):
        events.append({"ph": "M", "name": "thread_name", "pid": 0, "tid": sm, "args": {"name": f"SM {sm}"}})
        for index, words in enumerate(rows_of(table)):
            marks = trace[sm, index]
            if words["op"] == END or not marks[START] or not marks[DONE]:
                continue
            times = marks_of(marks)
            name = OP_NAMES[words["op"]]
            shown = {key: words[key] for key in ("layer", "units", "k_tiles", "plane", "head", "split")}
            spans = [(f"{name} {words['layer']}", times[START], times[DONE], shown)]
            spans += [(phase, times[i], times[i + 1], {}) for i, phase in enumerate(PHASES)]
            events += [_event(what, sm, begin - origin, end - begin, args, name) for what, begin, end, args in spans]
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def _event(name: str, sm: int, begin_ns: int, ns: int, args: dict[str, int], category: str) -> dict[str, Any]:
    times = {"ts": begin_ns / 1000, "dur": ns / 1000}
    return {"ph": "X", "name": name, "cat": category, "pid": 0, "tid": sm, **times, "args": args}


def summary(program: Program, trace: Trace) -> dict[str, tuple[float, float, float]]:
    """Microseconds of each operation that the mean SM spends in each of PHASES, in one token."""
    spent: dict[str, np.ndarray] = {}
    for sm, table in enumerate(program.instructions):
        for index, words in enumerate(rows_of(table)):
            marks = trace[sm, index]
            if words["op"] != END and marks[START] and marks[DONE]:
                name = OP_NAMES[words["op"]]
                spent[name] = spent.get(name, np.zeros(3)) + np.diff(marks_of(marks))
    return {name: tuple(each / 1000 / len(program.instructions)) for name, each in spent.items()}


def drawing(program: Program, trace: Trace, layer: int, sms: Sequence[int], width: int = 100) -> list[str]:
    """Lines of text: what each of `sms` does while the GPU is in `layer`, from left to right.

    A letter of LETTERS while it works, the small letter while it hands on, a dot while it waits for input.
    """
    spans = {sm: list(_spans(program, trace, sm, layer)) for sm in range(len(program.instructions))}
    times = [each[:2] for listed in spans.values() for each in listed]
    if not times:
        return [f"layer {layer} left no marks"]
    begin, end = min(first for first, _ in times), max(last for _, last in times)
    lines = [f"layer {layer}, {(end - begin) / 1000:.1f} µs from left to right; {LEGEND}"]
    for sm in sms:
        row = [" "] * width
        for first, last, letter in spans[sm]:
            low, high = (int((each - begin) * width / max(1, end - begin)) for each in (first, last))
            row[low : max(high, low + 1)] = letter * (max(high, low + 1) - low)
        lines.append(f"SM {sm:3} |{''.join(row[:width])}|")
    return lines


LETTERS = dict(zip(OP_NAMES, "EQAOGDHR", strict=True))
LEGEND = ", ".join(f"{letter} {name}" for name, letter in LETTERS.items() if name != "end") + ", . waits"


def _spans(program: Program, trace: Trace, sm: int, layer: int) -> Iterator[tuple[int, int, str]]:
    """(begin, end, letter) of every phase of the SM's instructions of a layer that left marks."""
    for index, words in enumerate(rows_of(program.instructions[sm])):
        marks = trace[sm, index]
        if words["layer"] == layer and words["op"] != END and marks[START] and marks[DONE]:
            letter = LETTERS[OP_NAMES[words["op"]]]
            times = marks_of(marks)
            yield from zip(times[:-1], times[1:], (".", letter, letter.lower()), strict=True)
