"""A call of gemm.cu: its arguments checked and packed, tensor maps encoded. Needs CUDA to run."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.blackwell.gemm_tiles import (
    ARCHITECTURE,
    COLUMNS,
    PARAMS,
    ROWS,
    SCALE_TILE_BYTES,
    THREADS,
    Tile,
    constants,
    sizes,
    tile_of,
)
from kernels.check_args import check_additions, check_out, check_tensor
from kernels.cuda import nvrtc
from kernels.cuda.call import CudaCall, Prepared, launch_nothing, size_and_strides
from kernels.cuda.launch import Launch, pack_struct
from kernels.dtypes import DTYPES
from kernels.ops import LinearCase
from kernels.ops.linear import LinearArguments
from kernels.quant import block_scaled
from kernels.tiles.maps import TENSOR_MAP, named

SOURCE = Path(__file__).with_name("gemm.cu")
PANEL = (32, 64)
"""Rows and columns of y that one copy stores."""

MAPS = np.dtype([(name, TENSOR_MAP) for name in ("x", "w", "y", "x_scales", "w_scales")])
"""`struct Maps` of gemm.cuh; without block scales the last two are zeros."""

OperandTensors = tuple[Tensor, Tensor | None, Tensor | None]
"""An operand: its values, its float32 scales, and the tiles of its block scales."""


class BlackwellLinear(CudaCall):
    """f(x, w, bias=None, residual=None) for the case, compiled. Raises ValueError that names a param."""

    open_layout = staticmethod(size_and_strides)

    def __init__(self, case: LinearCase, params: dict[str, Any]) -> None:
        super().__init__()
        self.case, self.tile = case, tile_of(case, params)
        self.kernel = nvrtc.load(build_of(case, self.tile), "gemm", self.tile.shared_bytes)

    def _prepare(self, check: bool, stream: int, out: Any, /, *arguments: Any, **kwargs: Any) -> Prepared:
        x, w, bias, residual, _ = LinearArguments(*arguments, **kwargs)
        case, tile = self.case, self.tile
        of_x, of_w = parts(case, x), parts(case, w)
        if check:
            self._check(of_x, of_w, bias, residual, out)
        values, weights = of_x[0], of_w[0]
        m = values.shape[0]
        allocate = partial(torch.empty, m, case.n, dtype=DTYPES[case.dtype], device=values.device)
        if not m:
            return Prepared(allocate, lambda _: launch_nothing)
        params = parameters(case, tile, of_x, of_w, bias, residual)
        maps = np.zeros((), MAPS)
        row = 128 // values.element_size()
        maps["x"], maps["w"] = named("x", values, (ROWS, row)), named("w", weights, (tile.columns // tile.blocks, row))
        of_columns = 1 if tile.sends_scales else tile.columns // ROWS
        for name, (_, _, scales), tiles in (("x", of_x, 1), ("w", of_w, of_columns)):
            if scales is not None:
                box = (tiles, tile.scale_tiles, SCALE_TILE_BYTES // 4)
                maps[f"{name}_scales"] = named(f"{name}'s block scales", scales.view(torch.int32), box, swizzled=False)
        clusters = int(params["row_tiles"] * params["column_tiles"])
        if not tile.dynamic:
            clusters = min(clusters, self._sms(values.device) // tile.blocks)
        grid = (tile.blocks * clusters,)

        def bind(y: Tensor) -> Launch:
            whole = maps.copy()
            whole["y"] = named("out", y, PANEL)
            return Launch(self.kernel, grid, THREADS, (whole, params), stream, tile.shared_bytes)

        return Prepared(allocate, bind)

    def _check(
        self, x: OperandTensors, w: OperandTensors, bias: Tensor | None, residual: Tensor | None, out: Any
    ) -> None:
        case, device = self.case, x[0].device
        operand, columns = DTYPES[case.dtype], case.k
        if case.scales is not None:
            operand, columns = (torch.uint8, case.k // 2) if case.scales == "block16" else (torch.float8_e4m3fn, case.k)
        m, dtype = x[0].shape[0], (DTYPES[case.dtype],)
        for name, of, rows in (("x", x, m), ("w", w, case.weight_rows)):
            check_tensor(name, of[0], (rows, columns), (operand,))
            if of[1] is not None:
                shape = (rows, 1) if case.scales == "row" else ()
                check_tensor(f"{name}'s scales", of[1], shape, (torch.float32,), device, "contiguous")
            if of[2] is not None:
                padded = ROWS if name == "x" else max(COLUMNS)
                scale_tiles = sizes(case, self.tile, 1)["steps"] * self.tile.scale_tiles
                tiles = (-(-rows // padded) * padded // ROWS, scale_tiles, block_scaled.TILE_BYTES)
                check_tensor(f"{name}'s block scales", of[2], tiles, (torch.uint8,), device, "contiguous", 16)
        check_additions(case, m, bias, residual, device, aligned=(16, 16))
        check_out(out, (m, case.n), dtype)


def build_of(case: LinearCase, tile: Tile) -> nvrtc.Build:
    return nvrtc.Build.of(SOURCE, constants(case, tile), ARCHITECTURE)


def parts(case: LinearCase, operand: Any) -> OperandTensors:
    """The tensors of an operand that `LinearCase.passed` or `pack` returned."""
    if case.scales is None:
        return operand, None, None
    if block_scaled.named(case.scales):
        values, tiles, tensor_scale = operand
        return values, tensor_scale, tiles
    values, scales = operand
    return values, scales, None


def parameters(
    case: LinearCase, tile: Tile, x: OperandTensors, w: OperandTensors, bias: Tensor | None, residual: Tensor | None
) -> Any:
    """The `Params` of a launch. It holds addresses of all these tensors."""
    tensors = {"x_scales": x[1], "w_scales": w[1], "bias": bias, "residual": residual}
    return pack_struct(PARAMS, **sizes(case, tile, x[0].shape[0]), **tensors)
