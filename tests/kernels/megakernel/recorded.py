"""A token that an H200 recorded, and tokens of made-up times, as the kernel leaves them: programs and raw marks."""

from functools import cache
from pathlib import Path

import numpy as np

from kernels.megakernel.host import trace
from kernels.megakernel.program import Program, build_program
from kernels.megakernel.program.instructions import END, OP_NAMES
from kernels.megakernel.program.layout import default_layout
from kernels.megakernel.program.shape import shape_of
from kernels.megakernel.proof.structure import instruction_rows
from kernels.model_files import catalogue

KEPT = Path(__file__).parents[3] / "benchmarks" / "results" / "h200" / "timeline-llama-3.2-1b.json.gz"
WAITED, WORKED, PUBLISHED, PAUSE = 30, 60, 10, 5
"""Nanoseconds of each instruction of `made_up`, and of the time before it."""


@cache
def llama() -> tuple[Program, trace.Trace]:
    """The kept timeline of Llama-3.2-1B as a raw trace beside its program, without marks of END."""
    timeline = trace.read_chrome(KEPT)
    program = build_program(*_of_llama())
    raw = np.zeros((timeline.sms, max(map(len, program.instructions)), 8), dtype=np.uint64)
    at = {
        (sm, OP_NAMES[words["op"]], words["layer"]): index
        for sm, table in enumerate(program.instructions)
        for index, words in enumerate(instruction_rows(table))
    }
    for span in timeline.spans:
        marks = [mark + 1 for mark in span.marks]  # the kept ones begin at 0, which means no mark
        raw[span.sm, at[span.sm, span.op, span.layer], : len(marks)] = marks
    return program, raw


def _of_llama():
    shape = shape_of(catalogue.entry("llama-3.2-1b")[0])
    return shape, default_layout(shape, capacity=192)


def made_up(program: Program, with_end: bool = True) -> trace.Trace:
    """Every instruction waits, works and publishes as long; all SMs begin together."""
    raw = np.zeros((len(program.instructions), max(map(len, program.instructions)), 8), dtype=np.uint64)
    for sm, table in enumerate(program.instructions):
        for index, words in enumerate(instruction_rows(table)):
            if with_end or words["op"] != END:
                start = 5_000_000 + index * (WAITED + WORKED + PUBLISHED + PAUSE)
                raw[sm, index, :4] = start + np.cumsum([0, WAITED, WORKED, PUBLISHED])
    return raw
