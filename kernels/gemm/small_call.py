"""A call of a small product: checks the arguments, encodes their tensor maps, launches. Needs CUDA."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.check_args import check_additions, check_out, check_tensor
from kernels.cuda import nvrtc
from kernels.cuda.call import CudaCall, Prepared, pointers
from kernels.cuda.launch import Launch, pack_struct
from kernels.dtypes import DTYPES
from kernels.gemm.small_tiles import CODES_BYTES, PACKED_BYTES, PANEL, SmallTileConfig
from kernels.ops import LinearCase
from kernels.ops.linear import LinearArguments
from kernels.tiles.maps import named

SOURCE = Path(__file__).with_name("small.cu")

PARAMS = np.dtype(
    [(name, np.uint64) for name in ("y", "bias", "residual")]
    + [(name, np.int32) for name in ("m", "n", "k", "pdl")]
    + [(name, np.float32) for name in ("inverse_k", "eps")],
    align=True,
)
"""`struct Params` of small_epilogue.cuh."""


def macros(config: SmallTileConfig) -> dict[str, int]:
    """The macros of small.cu."""
    return config.macros() | {"PARAMS_BYTES": PARAMS.itemsize}


def build_of(config: SmallTileConfig) -> nvrtc.Build:
    return nvrtc.Build.of(SOURCE, macros(config))


class SmallLinear(CudaCall):
    """f(x [m, k], w, bias=None, residual=None, eps) -> y [m, n]; w [weight_rows, k], or what `small_pack` returns."""

    open_layout = staticmethod(pointers)

    def __init__(self, case: LinearCase, config: SmallTileConfig, pdl: bool) -> None:
        super().__init__()
        self.case, self.config, self.pdl = case, config, pdl
        self.compiled = build_of(config)

    def _prepare(self, check: bool, stream: int, out: Any, /, *arguments: Any, **kwargs: Any) -> Prepared:
        x, w, bias, residual, eps = LinearArguments(*arguments, **kwargs)
        case, config = self.case, self.config
        if check:
            self._check(x, w, bias, residual, out)
        sizes = {"m": case.m, "n": case.n, "k": case.k, "inverse_k": 1 / case.k}
        params = pack_struct(PARAMS, **sizes, pdl=self.pdl, eps=eps, bias=bias, residual=residual)
        maps = self._weights(w), named("x", x, (config.x_rows, PANEL))
        kernel = nvrtc.kernel(self.compiled, "small_gemm", config.shared_bytes)

        def bind(y: Tensor) -> Launch:
            mine = params.copy()
            mine["y"] = y.data_ptr()
            given = (*maps, mine)
            return Launch(kernel, (config.blocks,), config.threads, given, stream, config.shared_bytes, self.pdl)

        return Prepared(partial(torch.empty, case.m, case.n, dtype=x.dtype, device=x.device), bind)

    def _weights(self, w: Tensor) -> Any:
        """The tensor map of w; with a gate, 8 rows of gate alternate with the 8 matching rows of up."""
        case, rows = self.case, self.config.rows
        if self.config.widened:
            return w.data_ptr()
        if not case.gates:
            return named("w", w, (rows, PANEL))
        return named("w", w.view(2, case.n // 8, 8, case.k).transpose(0, 1), (rows // 16, 2, 8, PANEL))

    def _check(self, x: Tensor, w: Tensor, bias: Tensor | None, residual: Tensor | None, out: Tensor | None) -> None:
        case = self.case
        dtype = (DTYPES[case.dtype],)
        check_tensor("x", x, (case.m, case.k), dtype, layout="contiguous")
        if self.config.widened:
            tiles, panels = self.config.row_tiles, -(-case.k // PANEL)
            packed = (panels, PACKED_BYTES) if case.weights == "int8" else (panels * CODES_BYTES + 64 * 4,)
            check_tensor("w", w, (tiles, *packed), (torch.uint8,), layout="contiguous", aligned=16)
        else:
            check_tensor("w", w, (case.weight_rows, case.k), dtype, layout="contiguous")
        check_additions(case, case.m, bias, residual, aligned=(1, 16))
        check_out(out, (case.m, case.n), dtype)
