"""A call of gemv.cu: arguments checked and packed."""

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.check_args import check_out, check_presence, check_tensor
from kernels.cuda import nvrtc
from kernels.cuda.call import CudaCall, Prepared, size
from kernels.cuda.launch import Launch
from kernels.dtypes import DTYPES
from kernels.gemm.gemv_cuda import build_of
from kernels.ops import LinearCase


class GemvCall(CudaCall):
    """f(x [1, k], w [n, k]) -> y [1, n]."""

    open_layout = staticmethod(size)  # right arguments are contiguous

    def __init__(self, case: LinearCase, warps: int) -> None:
        super().__init__()
        self.case, self.warps = case, warps
        self.kernel = nvrtc.load(build_of(case, warps), "gemv")

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
        case = self.case
        if check:
            dtypes = (DTYPES[case.dtype],)
            check_tensor("x", x, (1, case.k), dtypes, None, "contiguous", 16)
            check_tensor("w", w, (case.n, case.k), dtypes, x.device, "contiguous", 16)
            check_presence("bias", bias, False, "the case has none")
            check_presence("residual", residual, False, "the case has none")
            check_out(out, (1, case.n), dtypes)
        inputs, sizes = (x.data_ptr(), w.data_ptr()), (np.int32(case.n), np.int32(case.k))
        grid = (-(-case.n // self.warps),)

        def bind(y: Tensor) -> Launch:
            return Launch(self.kernel, grid, self.warps * 32, (*inputs, y.data_ptr(), *sizes), stream)

        return Prepared(partial(torch.empty, 1, case.n, dtype=x.dtype, device=x.device), bind)
