"""A call of gemv_kernel: arguments checked and packed."""

from typing import Any

import triton
from torch import Tensor

from kernels.check_args import check_outputs, check_presence, check_tensor
from kernels.cuda.call import CudaCall, Output, Prepared, allocation, size
from kernels.cuda.triton_launch import prepared
from kernels.dtypes import DTYPES
from kernels.gemm.gemv_kernel import _gemv
from kernels.ops import LinearCase


class GemvTritonCall(CudaCall):
    """f(x [1, k], w [n, k], out=None) -> y [1, n], all contiguous."""

    open_layout = staticmethod(size)  # right arguments are contiguous

    def __init__(self, case: LinearCase, rows: int, columns: int) -> None:
        super().__init__()
        self.case, self.rows, self.columns = case, rows, columns

    def _prepare(
        self,
        check: bool,
        stream: int,
        out: Any,
        x: Tensor,
        w: Tensor,
        bias: Any = None,
        residual: Any = None,
        eps: float = 1e-6,
    ) -> Prepared:
        case, rows, columns = self.case, self.rows, self.columns
        dtype = DTYPES[case.dtype]
        outputs = [Output("out", (1, case.n), dtype)]
        if check:
            check_tensor("x", x, (1, case.k), (dtype,), x.device, "contiguous")
            check_tensor("w", w, (case.n, case.k), (dtype,), x.device, "contiguous")
            check_presence("bias", bias, False, "the case has none")
            check_presence("residual", residual, False, "the case has none")
            check_outputs(out, outputs, x.device)

        def arguments(y: Tensor) -> tuple[Any, ...]:
            return x, w, y, case.n, case.k, rows, columns

        grid = (triton.cdiv(case.n, rows),)
        return prepared(_gemv, grid, stream, allocation(outputs, x.device), arguments)
