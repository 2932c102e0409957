"""A call of hopper.cu: its macros, its arguments checked and packed, tensor maps encoded. Needs CUDA to run."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from kernels.check_args import C_TYPES, check_additions, check_out, check_tensor
from kernels.cuda import nvrtc
from kernels.cuda.call import CudaCall, Prepared, launch_nothing, size_and_strides
from kernels.cuda.launch import Launch
from kernels.cuda.occupancy import MAX_SHARED_BYTES, max_active_clusters
from kernels.dtypes import DTYPES
from kernels.gemm.hopper_tiles import THREADS, Tile, tile_of
from kernels.ops import LinearCase, Scales
from kernels.ops.linear import LinearArguments
from kernels.tiles.maps import named

SOURCE = Path(__file__).with_name("hopper.cu")
PING_PONG = Path(__file__).with_name("hopper_ping_pong.cu")
"""The product of SOURCE with the ping-pong schedule."""
PARAMS = np.dtype(
    [(name, np.uint64) for name in ("bias", "x_scales", "w_scales", "y_scales")]
    + [(name, np.int32) for name in ("rows", "columns", "k", "row_tiles", "column_tiles", "group")]
    + [(name, np.int32) for name in ("x_scale_stride", "w_scale_stride", "y_scale_stride")]
    + [("epsilon", np.float32)],
    align=True,
)
"""`struct Params` of schedule.cuh."""

KINDS = {
    "none": "kNone", "bias": "kBias", "residual": "kResidual", "swiglu": "kSwiglu", "quantise": "kQuantise",
    "rmsnorm_scale": "kNone", "rmsnorm_scale_bias": "kBias", "rmsnorm_scale_swiglu": "kSwiglu",
}  # fmt: skip
SCALES: dict[Scales | None, int] = {None: 0, "tensor": 1, "row": 2, "block": 3}
BLOCK = 128
"""Columns of y that share one scale of a row when y is quantised; also the block size of `block` scales."""


class HopperLinear(CudaCall):
    """f(x, w, bias=None, residual=None, eps=1e-6) for the case, compiled. Raises ValueError that names a param."""

    def __init__(self, case: LinearCase, params: dict[str, Any]) -> None:
        super().__init__()
        self.open_layout = _with_contiguous_scales if case.scales in ("tensor", "row") else size_and_strides
        self.case, self.tile = case, tile_of(case, params)
        self.kernel = nvrtc.load(build_of(case, self.tile), "gemm", self.tile.shared_bytes)
        self.quantised = case.epilogue == "quantise"
        self.dtype = torch.float8_e4m3fn if self.quantised else DTYPES[case.dtype]
        unit = 16 if self.quantised else 8
        self.padded = -(-case.n // unit) * unit  # rows of y begin at multiples of 16 bytes

    def _prepare(self, check: bool, stream: int, out: Any, /, *arguments: Any, **kwargs: Any) -> Prepared:
        x, w, bias, residual, eps = LinearArguments(*arguments, **kwargs)
        case = self.case
        (x, x_scales), (w, w_scales) = (operand if case.scales else (operand, None) for operand in (x, w))
        if check:
            self._check(x, w, bias, residual, out)
        m = x.shape[0]
        params = np.zeros((), PARAMS)
        if case.scales:
            _fill_scales(params, case, x, x_scales, w_scales)
        allocate = self._allocate(m, x.device)
        if not m:
            return Prepared(allocate, lambda _: launch_nothing)
        added = self._padded(bias, residual)
        params["bias"] = 0 if added[0] is None else added[0].data_ptr()
        params["epsilon"] = eps
        copied = added[0] is not bias or added[1] is not residual
        return Prepared(allocate, self._binding(stream, params, x, w, added[1]), holds=added if copied else None)

    def _allocate(self, m: int, device: torch.device) -> Callable[[], Any]:
        case = self.case
        y = partial(torch.empty_strided, (m, case.n), (self.padded, 1), dtype=self.dtype, device=device)
        if not self.quantised:
            return y
        scales = partial(torch.empty, m, -(-case.n // BLOCK), dtype=torch.float32, device=device)
        return lambda: (y(), scales())

    def _binding(
        self, stream: int, params: np.ndarray, x: Tensor, w: Tensor, residual: Tensor | None
    ) -> Callable[[Any], Launch]:
        case, tile, kernel = self.case, self.tile, self.kernel
        m, step = x.shape[0], 128 // x.element_size()
        row_tiles, column_tiles = -(-m // 128), -(-case.weight_rows // tile.columns)
        names = ("rows", "columns", "k", "row_tiles", "column_tiles", "group")
        for name, value in zip(names, (m, case.n, case.k, row_tiles, column_tiles, tile.group), strict=True):
            params[name] = value
        y_box = (64, 128 // self.dtype.itemsize)
        x_map, w_map = named("x", x, (128, step)), named("w", w, (tile.columns // 2, step))
        residual_map = None if residual is None else named("residual", residual, y_box)
        pairs = max_active_clusters(2, THREADS, MAX_SHARED_BYTES)
        grid = (2 * min(-(-row_tiles // 2) * column_tiles, pairs),)

        def bind(outputs: Any) -> Launch:
            y, mine = outputs, params.copy()
            if self.quantised:
                y, scales = outputs
                mine["y_scales"], mine["y_scale_stride"] = scales.data_ptr(), scales.shape[1]
            y_map = named("out", y, y_box)
            maps = x_map, w_map, y_map, y_map if residual_map is None else residual_map
            return Launch(kernel, grid, THREADS, (*maps, mine), stream, tile.shared_bytes)

        return bind

    def _check(self, x: Tensor, w: Tensor, bias: Tensor | None, residual: Tensor | None, out: Any) -> None:
        case = self.case
        operand = (torch.float8_e4m3fn if case.scales else DTYPES[case.dtype],)
        check_tensor("x", x, (None, case.k), operand)
        check_tensor("w", w, (case.weight_rows, case.k), operand)
        m = x.shape[0]
        check_additions(case, m, bias, residual, layout="any")
        if out is None:
            return
        if self.quantised:
            out, scales = out
            check_out(scales, (m, -(-case.n // BLOCK)), (torch.float32,), "out's scales")
        check_tensor("out", out, (m, case.n), (self.dtype,), aligned=16)

    def _padded(self, bias: Tensor | None, residual: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """Both in the layout that the kernel reads: rows of `padded` values; bias contiguous and aligned to 4 bytes."""
        missing = self.padded - self.case.n
        if missing:
            return tuple(None if tensor is None else pad(tensor, (0, missing)) for tensor in (bias, residual))  # type: ignore[return-value]
        if bias is not None and (bias.data_ptr() % 4 or bias.stride(0) != 1):
            bias = bias.clone(memory_format=torch.contiguous_format)
        return bias, residual


def _with_contiguous_scales(values: Iterable[Any]) -> tuple[Any, ...]:
    """What differs between right calls where x and w are pairs with contiguous scales: all sizes follow from out's."""
    out, (x, x_scales), (w, w_scales), *rest = values
    addresses = x.data_ptr(), w.data_ptr(), x_scales.data_ptr(), w_scales.data_ptr()
    return *addresses, x.stride(), w.stride(), size_and_strides((out, *rest))


def build_of(case: LinearCase, tile: Tile) -> nvrtc.Build:
    return nvrtc.Build.of(PING_PONG if tile.ping_pong else SOURCE, constants(case, tile))


def constants(case: LinearCase, tile: Tile) -> dict[str, Any]:
    """The macros of hopper.cu, or hopper_ping_pong.cu, for a case."""
    plain = C_TYPES[case.dtype]
    return {
        "TYPE": "e4m3" if case.scales else plain, "OUT": "e4m3" if case.epilogue == "quantise" else plain,
        "EPILOGUE": KINDS[case.epilogue], "NORMALISE": int(case.normalises), "SCALES": SCALES[case.scales],
        "PROMOTE": int(tile.promote), "BN": tile.columns, "STAGES": tile.stages,
        "PARAMS_BYTES": PARAMS.itemsize, "SHARED_BYTES": tile.shared_bytes,
    } | ({"PANELS": tile.panels} if tile.ping_pong else {})  # fmt: skip


def _fill_scales(filled: np.ndarray, case: LinearCase, x: Tensor, x_scales: Any, w_scales: Any) -> None:
    m, rows, blocks = x.shape[0], case.weight_rows, -(-case.k // BLOCK)
    shapes = {"tensor": ((), ()), "row": ((m, 1), (rows, 1)), "block": ((m, blocks), (-(-rows // BLOCK), blocks))}[
        case.scales or "tensor"
    ]
    for name, scales, shape in (("x", x_scales, shapes[0]), ("w", w_scales, shapes[1])):
        if tuple(scales.shape) != shape or scales.dtype != torch.float32 or scales.device != x.device:
            raise ValueError(
                f"{name}'s scales are {scales.dtype} {list(scales.shape)} on {scales.device}, "
                f"where the case takes float32 {list(shape)} on {x.device}"
            )
        filled[f"{name}_scales"] = scales.data_ptr()
    if case.scales == "block":
        if m > 1 and x_scales.stride(0) != 1:
            raise ValueError(f"x's scales have strides {list(x_scales.stride())}: rows lie next to each other, (1, m)")
        if not w_scales.is_contiguous():
            raise ValueError(f"w's scales have strides {list(w_scales.stride())}: they must be contiguous")
        filled["x_scale_stride"], filled["w_scale_stride"] = x_scales.stride(1), blocks
    elif not (x_scales.is_contiguous() and w_scales.is_contiguous()):
        raise ValueError("x's and w's scales must be contiguous")
