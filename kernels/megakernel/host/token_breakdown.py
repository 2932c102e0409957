"""Where a recorded token's time went, by kind of instruction, and the bytes each reads. Imports without torch. Weights
are read ahead, so an instruction, but no token, may take less time than its bytes.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kernels.measure.pass_time import distinct
from kernels.megakernel.host.trace import DONE, LOADED, START, BadTrace, Timeline
from kernels.megakernel.program import Program
from kernels.megakernel.program.instructions import DOWN, GATE_UP, HEAD, OP_NAMES, OUT, QKV, ROUTER
from kernels.megakernel.proof.structure import instruction_rows
from kernels.model_files.families import ExpertSizes

PRODUCTS = (QKV, OUT, GATE_UP, DOWN, HEAD, ROUTER)
ATTENTION_NAME = "attention"
KEY_BYTES = 2
"""Bytes of an element of the caches."""


class InstructionTime(NamedTuple):
    """One kind of instruction in the token of the mean SM.

    `waits` is the share of the token's time from an instruction's start until its input is read, `works` the rest of
    it. `places` counts the layers that have it. `read_bytes` are what one GPU reads for all of them: weights, or keys
    and values, each once.
    """

    op: str
    waits: float
    works: float
    places: int
    read_bytes: float


class TokenBreakdown(NamedTuple):
    """A token of `token_us` microseconds on `gpus` GPUs. `between` is the share in which an SM ran no instruction."""

    token_us: float
    gpus: int
    kinds: list[InstructionTime]
    between: float

    @property
    def waits(self) -> float:
        """The share of the time in which the mean SM had not read its input yet."""
        return sum(kind.waits for kind in self.kinds)

    @property
    def read_bytes(self) -> float:
        """What one GPU reads for the token."""
        return sum(kind.read_bytes for kind in self.kinds)


def token_breakdown(timeline: Timeline, programs: Sequence[Program], keys: float) -> TokenBreakdown:
    """The shares of a token over `keys` keys, over several GPUs the mean. OUT's first phase is attention where OUT
    attends, and contains waiting for q, k and v. Raises BadTrace without marks.
    """
    if not timeline.spans:
        raise BadTrace("the timeline has no marks")
    begin, end = min(span.marks[START] for span in timeline.spans), max(span.marks[DONE] for span in timeline.spans)
    total = (end - begin) * timeline.sms * timeline.gpus
    spent: dict[str, np.ndarray] = {}
    layers: dict[str, set[int]] = {}
    attends = not programs[0].layout.splits
    for span in timeline.spans:
        waited, worked = span.marks[LOADED] - span.marks[START], span.marks[DONE] - span.marks[LOADED]
        parts = {span.op: (waited, worked)}
        if attends and span.op == OP_NAMES[OUT]:
            parts = {ATTENTION_NAME: (0, waited), span.op: (0, worked)}
        for op, times in parts.items():
            spent[op] = spent.get(op, np.zeros(2)) + times
            layers.setdefault(op, set()).add(span.layer)
    read = bytes_of(programs, keys)
    kinds = [
        InstructionTime(op, float(times[0] / total), float(times[1] / total), len(layers[op]), read.get(op, 0.0))
        for op, times in spent.items()
    ]
    between = 1 - sum(kind.waits + kind.works for kind in kinds)
    return TokenBreakdown((end - begin) / 1000, timeline.gpus, kinds, between)


def bytes_of(programs: Sequence[Program], keys: float) -> dict[str, float]:
    """The bytes that a GPU reads for a token by kind of instruction, the mean of the ranks: weights as they stream, and
    of a mixture as many experts as sequences have between them where each chooses evenly.
    """
    by_op: dict[str, float] = {}
    for program in programs:
        shape, layout = program.shape, program.layout
        experts = ExpertSizes(shape.experts, shape.top_k, 0)
        at_work = distinct(experts, layout.batch) / (layout.expert_groups * shape.top_k) if shape.experts else 1.0
        cached = 2 * KEY_BYTES * keys * shape.kv_heads * shape.head_dim * layout.batch * shape.layers
        by_op[ATTENTION_NAME] = by_op.get(ATTENTION_NAME, 0.0) + cached / len(programs)
        for words in (words for table in program.instructions for words in instruction_rows(table)):
            if words["op"] in PRODUCTS:
                form = program.layout.form_of(words["op"])
                name, size = OP_NAMES[words["op"]], words["units"] * form.unit_bytes(words["k_tiles"])
                share = 1.0 if program.in_stream(words["op"]) else at_work
                by_op[name] = by_op.get(name, 0.0) + size * share / len(programs)
    return by_op
