"""How long a step that reads prompts keeps the tokens of others waiting, and the chunks that keep it within a bound.

A step with chunks of prompts and decodes gives these tokens when all of it is done. So the longest such step is
the longest pause between two tokens of an answer that prompts cause. It is timed before the server is ready, over the
longest sequences, in the pass that such a step takes beside the most decodes.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from kernels.server.execution.shapes import PassShape, mixed_rows
from kernels.server.scheduler.batching import SchedulerLimits

MAX_MS = {"cuda": 50.0, "cpu": 1000.0}
"""The bound where the operator says none, by type of device."""
TIMED_ROWS = 32
"""Rows of the larger of the two passes that a CPU's are estimated from."""


def estimated(pass_ms: Callable[[int], float], most: int) -> Callable[[PassShape], float]:
    """A CPU pass's ms by its rows: a line through decodes of one and TIMED_ROWS, where long ones take seconds."""
    many, one_ms = min(TIMED_ROWS, most), pass_ms(1)
    row_ms = max(0.0, pass_ms(many) - one_ms) / max(1, many - 1)
    return lambda shape: one_ms + row_ms * (shape.rows - 1)


def within(
    limits: SchedulerLimits, shapes: Sequence[PassShape], ms: Callable[[PassShape], float], most: float
) -> tuple[SchedulerLimits, float]:
    """The limits with the most tokens beside decodes whose longest step takes `most` ms by `ms`, else the fewest, and
    its ms. Fewer rows save time in proportion at most: sizes too long even then are not timed.
    """
    full = limits.max_num_batched_tokens
    sizes = sorted({full, *(rows for rows in mixed_rows(full) if rows % limits.chunk_rows == 0)})
    while True:
        size = sizes.pop()
        tried = replace(limits, mixed_step_tokens=None if size == full else size)
        pause = ms(longest_pass(tried, shapes))
        if pause <= most or not sizes:
            return tried, pause
        sizes = [rows for rows in sizes if rows <= size * most / pause] or sizes[:1]


def longest_pass(limits: SchedulerLimits, shapes: Sequence[PassShape]) -> PassShape:
    """The pass of the longest step with decodes and chunks. `shapes` are those of `shapes.shapes`, in order."""
    decodes = limits.max_num_seqs
    budget, chunks = limits.prefill_budget(decodes), limits.prefill_chunks_beside(decodes)
    return next(
        shape
        for shape in shapes
        if shape.decodes >= decodes and shape.blocks * shape.block >= budget and shape.prefill_chunks >= chunks
    )
