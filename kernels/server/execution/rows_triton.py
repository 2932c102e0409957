"""Copies rows of keys and values between two layouts, in Triton: one program a row and layer."""

from collections.abc import Sequence

import triton
import triton.language as tl
from torch import Tensor

BLOCK, WARPS = 1024, 4


@triton.jit(do_not_specialize=["count"])  # else one row, multiples of 16 and others are compiled each, while serving
def _move(at, count, source, target, width, BLOCK: tl.constexpr):
    """Row at[i] of source becomes row at[count + i] of target, in every layer: (keys, values, a layer's elements)."""
    source_keys, source_values, source_layer = source
    target_keys, target_values, target_layer = target
    row, layer = tl.program_id(0), tl.program_id(1).to(tl.int64)
    begin = layer * source_layer + tl.load(at + row) * width
    to = layer * target_layer + tl.load(at + count + row) * width
    for start in range(0, width, BLOCK):
        each = start + tl.arange(0, BLOCK)
        inside = each < width
        tl.store(target_keys + to + each, tl.load(source_keys + begin + each, mask=inside), mask=inside)
        tl.store(target_values + to + each, tl.load(source_values + begin + each, mask=inside), mask=inside)


def move(at: Tensor, source: Sequence[Tensor], target: Sequence[Tensor]) -> None:
    """See `kernels.server.execution.megakernel_backend.move_rows`."""
    keys, to = source[0], target[0]
    count, width = at.shape[1], keys.shape[3] * keys.shape[4]
    given = (*source, keys.stride(0)), (*target, to.stride(0))
    _move[(count, len(keys))](at, count, *given, width, BLOCK=BLOCK, num_warps=WARPS)
