"""The sizes of packed passes: one CUDA graph each. Imports without torch."""

from collections.abc import Sequence
from typing import NamedTuple

from kernels.server.scheduler.batching import TOKENS_OF_A_CHUNK, SchedulerLimits
from kernels.server.scheduler.requests import Step

MIDDLES_FROM_ROWS = 32
"""From so many rows on, passes have sizes between the powers of two."""
LINEAR_FROM_ROWS, SPACING = 1024, 256
"""From so many rows on, each pass with chunks has SPACING rows more than the one before it: the product of gate and up
takes pairs of tiles of 128 rows there, and whole pairs leave none of them empty."""
FIRST_ROWS = (128, 512)
"""Rows of passes with chunks that are captured before a server is ready, beside the longest."""
FIRST_DECODES = (1, 8, 64)
"""Decodes of passes without chunks that are, beside the most."""
MIN_BLOCKS = 4
"""The fewest blocks of a pass with chunks, unless its limits allow fewer."""


class PassShape(NamedTuple):
    """A pass over `decodes` rows, and `blocks` of `block` consecutive tokens of up to `prefill_chunks` chunks."""

    decodes: int
    blocks: int
    block: int
    prefill_chunks: int

    @property
    def rows(self) -> int:
        """Tokens that the pass computes, padding included."""
        return self.decodes + self.blocks * self.block

    @property
    def sampled(self) -> int:
        """Rows for which it chooses a next token."""
        return self.decodes + self.prefill_chunks


def pass_shapes(limits: SchedulerLimits, decodes: Sequence[int] = ()) -> list[PassShape]:
    """Shapes that hold every step in the limits, the cheapest first; `decodes` of those without chunks, or defaults."""
    block, most = limits.chunk_rows, limits.max_num_seqs
    alone = {*(decode for decode in decodes if decode < most), most} if decodes else set(default_decodes(most))
    mixed = {*(item for item in limits.mixed if item < most), most}
    if limits.mixed_step_tokens:
        mixed.add(0)  # chunks without decodes may have more tokens
    result = [PassShape(item, 0, block, 0) for item in alone]
    for item in mixed:
        longest = limits.prefill_budget(item)
        result.append(PassShape(item, longest // block, block, limits.max_prefill_chunks))
        for tokens in {(rows - item) // block * block for rows in mixed_rows(item + longest)}:
            if MIN_BLOCKS * block <= tokens < longest:
                chunks = min(limits.max_prefill_chunks, max(1, tokens // TOKENS_OF_A_CHUNK))
                result.append(PassShape(item, tokens // block, block, chunks))
    return sorted(result, key=lambda shape: (shape.rows, shape.sampled))


def startup_shapes(candidates: Sequence[PassShape]) -> list[PassShape]:
    """A few shapes that together hold every step: without chunks, with chunks alone, and beside the most decodes."""
    longest = {shape.decodes: shape for shape in candidates if shape.blocks}
    most = max(shape.decodes for shape in candidates)

    def is_first(shape: PassShape) -> bool:
        if shape.blocks:
            return shape.decodes in (0, most) and (shape.rows in FIRST_ROWS or shape == longest[shape.decodes])
        return shape.decodes in (*FIRST_DECODES, most)

    return list(filter(is_first, candidates))


def mixed_rows(most: int) -> list[int]:
    """Rows of the passes with chunks: `default_decodes` up to LINEAR_FROM_ROWS, then every SPACING, `most` at last."""
    longer = range(LINEAR_FROM_ROWS + SPACING, most + SPACING, SPACING)
    return [*default_decodes(min(most, LINEAR_FROM_ROWS)), *(min(item, most) for item in longer)]


def default_decodes(most: int) -> list[int]:
    """Rows of the passes without chunks: powers of two below `most`, middles from MIDDLES_FROM_ROWS on, `most`."""
    powers = [1 << bit for bit in range(most.bit_length())]
    middles = [3 * power // 2 for power in powers if power >= MIDDLES_FROM_ROWS]
    return sorted({most, *(value for value in (*powers, *middles) if value < most)})


def smallest_holding(candidates: Sequence[PassShape], step: Step) -> PassShape:
    """The first of the candidates that holds the step. Raises ValueError for a step beyond all of them."""
    block = candidates[0].block
    decodes, chunks = len(step.decodes), len(step.prefill_chunks)
    blocks = sum(-(-part.tokens // block) for part in step.prefill_chunks)
    for shape in candidates:
        if decodes <= shape.decodes and blocks <= shape.blocks and chunks <= shape.prefill_chunks:
            return shape
    raise ValueError(f"a step of {decodes} decodes and {blocks} blocks of chunks is beyond the backend's limits")
