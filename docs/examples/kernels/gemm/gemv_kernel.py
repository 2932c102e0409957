"""y = x · wᵀ for one row of x, in Triton."""

import triton
import triton.language as tl


@triton.jit
def _gemv(x, w, y, n, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    rows_of_w = w + row.to(tl.int64)[:, None] * k
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for begin in range(0, k, COLUMNS):
        column = begin + tl.arange(0, COLUMNS)
        inside = (row < n)[:, None] & (column < k)[None, :]
        of_w = tl.load(rows_of_w + column[None, :], mask=inside, other=0.0)
        of_x = tl.load(x + column, mask=column < k, other=0.0)
        total += of_w.to(tl.float32) * of_x.to(tl.float32)[None, :]
    tl.store(y + row, tl.sum(total, 1).to(y.dtype.element_ty), mask=row < n)
