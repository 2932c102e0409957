"""Reads device memory by 16-byte loads: the bandwidth that a weight-bound kernel can reach. Needs Triton."""

from collections.abc import Callable
from functools import partial

import torch
import triton
import triton.language as tl

GRIDS = (2, 4, 8, 16)
"""Candidates for blocks per SM."""
BLOCKS = (2048, 4096)
"""Candidates for the words that a block reads at once: with 4 warps, 16 or 32 words a thread."""


@triton.jit
def _read(source, out, words, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), dtype=tl.int32)
    offsets = tl.arange(0, BLOCK)
    start = tl.program_id(0).to(tl.int64) * BLOCK
    step = tl.num_programs(0).to(tl.int64) * BLOCK
    for at in range(start, words, step):
        total ^= tl.load(source + at + offsets)
    tl.store(out + tl.program_id(0), tl.xor_sum(total, axis=0))


def read_calls(buffer: torch.Tensor) -> list[Callable[[], None]]:
    """Calls that each read `buffer` (int32, a multiple of 4096 words, far larger than the L2) once, in other ways."""
    sms = torch.cuda.get_device_properties(buffer.device).multi_processor_count
    out = torch.empty(sms * max(GRIDS), dtype=torch.int32, device=buffer.device)
    return [partial(_launch, buffer, out, sms * per_sm, block) for per_sm in GRIDS for block in BLOCKS]


def _launch(buffer: torch.Tensor, out: torch.Tensor, blocks: int, block: int) -> None:
    _read[(blocks,)](buffer, out, buffer.numel(), BLOCK=block, num_warps=4)
