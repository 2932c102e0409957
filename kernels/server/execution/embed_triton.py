"""The embeddings with which a packed pass begins, in Triton: one program a row."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.cuda.triton_launch import launch_once

BLOCK, WARPS = 2048, 4


@triton.jit
def _embed(given, source, last, table, out, hidden, BLOCK: tl.constexpr):
    """Copies the row of the token that is given, or of the newest token of the slot `source`."""
    row = tl.program_id(0)
    slot = tl.load(source + row)
    newest = tl.maximum(tl.load(last + tl.maximum(slot, 0)), 0)
    token = tl.where(slot >= 0, newest, tl.load(given + row))
    for start in range(0, hidden, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < hidden
        tl.store(out + row.to(tl.int64) * hidden + at, tl.load(table + token * hidden + at, mask=inside), mask=inside)


def embed_rows(given: Tensor, source: Tensor, last: Tensor, table: Tensor) -> Tensor:
    """[rows, hidden] of table [vocab, hidden], contiguous, by the ids given [rows], or last[source] where source >= 0;
    all int64. -1 in `last` is read as 0; an id beyond the table is not seen.
    """
    out = torch.empty(len(given), table.shape[1], dtype=table.dtype, device=table.device)
    if len(given):
        arguments = given, source, last, table, out, table.shape[1], BLOCK
        launch_once(_embed, (len(given),), arguments, out, num_warps=WARPS)
    return out
