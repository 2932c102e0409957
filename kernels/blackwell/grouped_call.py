"""A call of grouped.cu: its arguments checked and packed, tensor maps encoded. Needs CUDA to run."""

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.blackwell.gemm_call import MAPS, PANEL
from kernels.blackwell.gemm_tiles import ROWS, THREADS, Tile
from kernels.blackwell.grouped_tiles import PARAMS, build_of, max_tiles, sizes, tile_of
from kernels.check_args import check_tensor
from kernels.cuda import nvrtc
from kernels.cuda.call import CudaCall, Prepared, launch_nothing, size_and_strides
from kernels.cuda.launch import Launch, pack_struct
from kernels.dtypes import DTYPES
from kernels.gemm.grouped_call import check_arguments
from kernels.ops import GroupedCase
from kernels.tiles.maps import ROW_BYTES, named

Parts = tuple[Tensor, Tensor | None]
"""An operand: its values and its float32 scales."""


class GroupedBlackwellProduct(CudaCall):
    """f(x [rows, k], w [experts, n, k], offs [experts] int32) -> y; with scales x and w are pairs (values, scales)."""

    open_layout = staticmethod(size_and_strides)

    def __init__(self, case: GroupedCase, params: dict[str, Any]) -> None:
        super().__init__()
        self.case, self.tile = case, tile_of(case, params)
        self.kernel = nvrtc.load(build_of(case, self.tile), "gemm", self.tile.shared_bytes)

    def _prepare(self, check: bool, stream: int, out: Any, x: Any, w: Any, offs: Tensor) -> Prepared:
        case, tile = self.case, self.tile
        (x, x_scales), (w, w_scales) = parts(case, x), parts(case, w)
        if check:
            check_arguments(case, x, w, offs, out)
            self._check_scales(x, x_scales, w_scales)
        rows = x.shape[0]
        allocate = partial(torch.empty, rows, case.n, dtype=DTYPES[case.dtype], device=x.device)
        if not rows:
            return Prepared(allocate, lambda _: launch_nothing)
        params = parameters(case, tile, rows, offs, (x_scales, w_scales))
        maps, row = np.zeros((), MAPS), ROW_BYTES // x.element_size()
        maps["x"] = named("x", x, (ROWS, row))
        maps["w"] = named("w", w.view(-1, case.k), (tile.columns // tile.blocks, row))
        grid = (tile.blocks * min(max_tiles(case, tile, rows), self._sms(x.device) // tile.blocks),)

        def bind(y: Tensor) -> Launch:
            whole, mine = maps.copy(), params.copy()
            whole["y"], mine["y"] = named("out", y, PANEL), y.data_ptr()
            return Launch(self.kernel, grid, THREADS, (whole, mine), stream, tile.shared_bytes)

        return Prepared(allocate, bind)

    def _check_scales(self, x: Tensor, of_x: Tensor | None, of_w: Tensor | None) -> None:
        shapes = {"x": (x.shape[0], 1), "w": (self.case.experts, self.case.weight_rows, 1)}
        for (name, shape), scales in zip(shapes.items(), (of_x, of_w), strict=True):
            if scales is not None:
                check_tensor(f"{name}'s scales", scales, shape, (torch.float32,), x.device, "contiguous")


def parts(case: GroupedCase, operand: Any) -> Parts:
    """The tensors of an operand that `GroupedCase.passed` or `pack` returned."""
    if case.scales is None:
        return operand, None
    values, scales = operand
    return values, scales


def parameters(
    case: GroupedCase, tile: Tile, rows: int, offs: Tensor, scales: tuple[Tensor | None, Tensor | None]
) -> Any:
    """The `Params` of a launch without y. It holds the addresses of `offs` and of x's and w's scales."""
    return pack_struct(PARAMS, **sizes(case, tile, rows), offs=offs, x_scales=scales[0], w_scales=scales[1])
