"""A call of a grouped product: checks the arguments, encodes their tensor maps, packs the launch."""

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.check_args import check_out, check_tensor
from kernels.cuda import nvrtc
from kernels.cuda.call import CudaCall, Prepared, launch_nothing, size_and_strides
from kernels.cuda.launch import Launch
from kernels.cuda.occupancy import MAX_SHARED_BYTES, max_active_clusters
from kernels.dtypes import DTYPES
from kernels.gemm.grouped_tiles import COLUMNS, MAX_ROWS, PARAMS, SOURCE, X_BOXES, constants
from kernels.gemm.hopper_tiles import THREADS
from kernels.ops import GroupedCase
from kernels.tiles.core_matrices import TILE
from kernels.tiles.maps import named

W_BOX = 8, COLUMNS // TILE, 8 * TILE
"""Of tiles: eight times 8 columns of COLUMNS rows."""


class GroupedProduct(CudaCall):
    """f(x [rows, k], w [experts, n, k], offs [experts] int32) -> y [rows, n]; `tiled` w [experts, n/16, k/16, 256]."""

    open_layout = staticmethod(size_and_strides)

    def __init__(self, case: GroupedCase, tiled: bool = False) -> None:
        super().__init__()
        macros, self.shared_bytes = constants(case, tiled)
        self.case, self.tiled = case, tiled
        self.kernel = nvrtc.load(nvrtc.Build.of(SOURCE, macros), "grouped", self.shared_bytes)

    def _prepare(self, check: bool, stream: int, out: Any, x: Tensor, w: Tensor, offs: Tensor) -> Prepared:
        case = self.case
        if check:
            check_arguments(case, x, w, offs, out, self.tiled)
        rows = x.shape[0]
        allocate = partial(torch.empty, rows, case.n, dtype=x.dtype, device=x.device)
        if not rows:
            return Prepared(allocate, lambda _: launch_nothing)
        pairs = -(-case.weight_rows // (2 * COLUMNS))
        most_tiles = rows // MAX_ROWS + case.experts  # each expert may end in the middle of a tile
        grid = (2 * min(max_active_clusters(2, THREADS, MAX_SHARED_BYTES), most_tiles * pairs),)
        weight_rows = TILE * rows_apart(w) if self.tiled else case.weight_rows
        fields = (offs.data_ptr(), 0, rows, case.n, case.k, weight_rows, pairs)
        params = np.array(fields, dtype=PARAMS)
        maps = *(named("x", x, (size, 64)) for size in X_BOXES), self._map_of(w)

        def bind(y: Tensor) -> Launch:
            mine = params.copy()
            mine["y"] = y.data_ptr()
            return Launch(self.kernel, grid, THREADS, (*maps, mine), stream, self.shared_bytes)

        return Prepared(allocate, bind)

    def _map_of(self, w: Tensor) -> Any:
        if self.tiled:
            return named("w", view_by_columns(w), W_BOX, swizzled=False)
        return named("w", w.view(-1, self.case.k), (COLUMNS, 64))


def rows_apart(w: Tensor) -> int:
    """The rows of tiles from an expert's first one to the next expert's."""
    return w.stride(0) // w.stride(1)


def view_by_columns(w: Tensor) -> Tensor:
    """A view of tiles [experts, n/16, k/16, 256] as columns [k/8, rows/16, 128], rows between experts counted."""
    experts, tiles, k_tiles, _ = w.shape
    rows = (experts - 1) * rows_apart(w) + tiles
    return w.as_strided((2 * k_tiles, rows, 8 * TILE), (8 * TILE, w.stride(1), 1))


def check_arguments(
    case: GroupedCase, x: Tensor, w: Tensor, offs: Tensor, out: Tensor | None, tiled: bool = False
) -> None:
    """Raises ValueError that names a wrong argument of a grouped product; x and w are the values, w maybe `tiled`."""
    dtype = (DTYPES[case.dtype],)
    operand = dtype if case.scales is None else (torch.float8_e4m3fn,)
    check_tensor("x", x, (None, case.k), operand)
    if tiled:
        check_tensor("w", w, (case.experts, case.weight_rows // TILE, case.k // TILE, TILE * TILE), operand)
        if not w[0].is_contiguous() or w.stride(0) % w.stride(1):
            raise ValueError(f"w has strides {list(w.stride())}: the tiles of an expert lie one after the other")
    else:
        check_tensor("w", w, (case.experts, case.weight_rows, case.k), operand, layout="contiguous")
    check_tensor("offs", offs, (case.experts,), (torch.int32,), layout="contiguous")
    check_out(out, (x.shape[0], case.n), dtype)
