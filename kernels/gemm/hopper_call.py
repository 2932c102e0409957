"""One launch of hopper.cu: its macros, its arguments checked, outputs allocated, tensor maps encoded."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.check_args import check_presence, check_tensor
from kernels.gemm.hopper_plan import Tile, tile_of
from kernels.ops import LinearCase, Scales
from kernels.tiles.maps import named

if TYPE_CHECKING:
    import torch

SOURCE = Path(__file__).with_name("hopper.cu")
PING_PONG = Path(__file__).with_name("hopper_ping_pong.cu")
"""The same product on the ping-pong schedule."""
THREADS = 384
PARAMS = np.dtype(
    [(name, np.uint64) for name in ("bias", "x_scales", "w_scales", "y_scales")]
    + [(name, np.int32) for name in ("rows", "columns", "k", "row_tiles", "column_tiles", "group")]
    + [(name, np.int32) for name in ("x_scale_stride", "w_scale_stride", "y_scale_stride")]
    + [("epsilon", np.float32)],
    align=True,
)
"""`struct Params` of schedule.cuh."""

C_TYPES = {"bf16": "bf16", "fp16": "f16"}
KINDS = {
    "none": "kNone", "bias": "kBias", "residual": "kResidual", "swiglu": "kSwiglu", "quantise": "kQuantise",
    "rmsnorm_scale": "kNone", "rmsnorm_scale_bias": "kBias", "rmsnorm_scale_swiglu": "kSwiglu",
}  # fmt: skip
SCALES: dict[Scales | None, int] = {None: 0, "tensor": 1, "row": 2, "block": 3}
INTERLEAVED = 8
"""Rows of gate, then of up, that lie alternately for swiglu."""

BLOCK = 128
"""Columns of y that share one scale of a row when it is quantised, and what shares one in `block` scales."""


def product(case: LinearCase, params: dict[str, Any]) -> Callable[..., Any]:
    """f(x, w, bias=None, residual=None, eps=1e-6) for the case, compiled. Raises ValueError that names a param."""
    from kernels.cuda import nvrtc
    from kernels.ops.base import EPSILON

    tile = tile_of(case, params)
    kernel = nvrtc.load(PING_PONG if tile.ping_pong else SOURCE, "gemm", constants(case, tile), tile.shared_bytes)

    def call(x: Any, w: Any, bias: Any = None, residual: Any = None, eps: float = EPSILON) -> Any:
        return _run(kernel, case, tile, x, w, bias, residual, eps)

    return call


def constants(case: LinearCase, tile: Tile) -> dict[str, Any]:
    """The macros of hopper.cu, or hopper_ping_pong.cu, for a case."""
    plain = C_TYPES[case.dtype]
    return {
        "TYPE": "e4m3" if case.scales else plain, "OUT": "e4m3" if case.epilogue == "quantise" else plain,
        "EPILOGUE": KINDS[case.epilogue], "NORMALISE": int(case.normalises), "SCALES": SCALES[case.scales],
        "PROMOTE": int(tile.promote), "BN": tile.columns, "STAGES": tile.stages,
        "PARAMS_BYTES": PARAMS.itemsize, "SHARED_BYTES": tile.shared_bytes,
    } | ({"PANELS": tile.panels} if tile.ping_pong else {})  # fmt: skip


def interleaved(w: "torch.Tensor") -> "torch.Tensor":
    """[2n, k], gate rows first, as 8 rows of gate, then the 8 of up that belong to them, and so on."""
    return w.view(2, -1, INTERLEAVED, w.shape[1]).transpose(0, 1).reshape(w.shape)


def _run(kernel: Any, case: LinearCase, tile: Tile, x: Any, w: Any, bias: Any, residual: Any, eps: float) -> Any:
    import torch

    (x, x_scales), (w, w_scales) = (each if case.scales else (each, None) for each in (x, w))
    operand = (torch.float8_e4m3fn if case.scales else _plain(case),)
    check_tensor("x", x, (None, case.k), operand)
    check_tensor("w", w, (case.weight_rows, case.k), operand)
    m = x.shape[0]
    filled = np.zeros((), PARAMS)
    if case.scales:
        _fill_scales(filled, case, x, x_scales, w_scales)
    quantised = case.epilogue == "quantise"
    padded = -(-case.n // 16) * 16 if quantised else -(-case.n // 8) * 8  # rows of y begin at multiples of 16 bytes
    dtype = torch.float8_e4m3fn if quantised else _plain(case)
    y = torch.empty(m, padded, dtype=dtype, device=x.device)[:, : case.n]
    scales = torch.empty(m if quantised else 0, -(-case.n // BLOCK), dtype=torch.float32, device=x.device)
    if m:
        bias, residual = _added(case, m, padded, bias, residual)
        filled["bias"] = bias.data_ptr() if bias is not None else 0
        filled["y_scales"], filled["y_scale_stride"] = scales.data_ptr(), scales.shape[1]
        filled["epsilon"] = eps
        _launch(kernel, case, tile, filled, x, w, y, residual)
    return (y, scales) if quantised else y


def _launch(
    kernel: Any,
    case: LinearCase,
    tile: Tile,
    filled: np.ndarray,
    x: "torch.Tensor",
    w: "torch.Tensor",
    y: "torch.Tensor",
    residual: "torch.Tensor | None",
) -> None:
    import torch

    from kernels.cuda import nvrtc

    m, step = x.shape[0], 128 // x.element_size()
    row_tiles, column_tiles = -(-m // 128), -(-case.weight_rows // tile.columns)
    names = ("rows", "columns", "k", "row_tiles", "column_tiles", "group")
    for name, value in zip(names, (m, case.n, case.k, row_tiles, column_tiles, tile.group), strict=True):
        filled[name] = value
    y_box = (64, 128 // y.element_size())
    x_map, w_map, y_map = named("x", x, (128, step)), named("w", w, (tile.columns // 2, step)), named("y", y, y_box)
    residual_map = y_map if residual is None else named("residual", residual, y_box)
    pairs = torch.cuda.get_device_properties(x.device).multi_processor_count // 2
    blocks = 2 * min(-(-row_tiles // 2) * column_tiles, pairs)
    nvrtc.launch(kernel, (blocks,), THREADS, (x_map, w_map, y_map, residual_map, filled), tile.shared_bytes)


def _fill_scales(filled: np.ndarray, case: LinearCase, x: "torch.Tensor", x_scales: Any, w_scales: Any) -> None:
    import torch

    m, rows, blocks = x.shape[0], case.weight_rows, -(-case.k // BLOCK)
    shapes = {
        "tensor": ((), ()),
        "row": ((m, 1), (rows, 1)),
        "block": ((m, blocks), (-(-rows // BLOCK), blocks)),
    }[case.scales or "tensor"]
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


def _added(case: LinearCase, m: int, padded: int, bias: Any, residual: Any) -> tuple[Any, Any]:
    """Bias and residual as the kernel reads them: rows that begin at multiples of 16 bytes."""
    from torch.nn.functional import pad

    dtype, because = (_plain(case),), f"epilogue is {case.epilogue}"
    check_presence("bias", bias, case.adds_bias, because)
    if bias is not None:
        check_tensor("bias", bias, (case.n,), dtype, layout="any")
    check_presence("residual", residual, case.epilogue == "residual", because)
    if residual is not None:
        check_tensor("residual", residual, (m, case.n), dtype, layout="any")
    if bias is not None and (padded != case.n or bias.data_ptr() % 4 or bias.stride(0) != 1):
        bias = pad(bias, (0, padded - case.n)) if padded != case.n else bias.clone()
    if residual is not None and padded != case.n:
        residual = pad(residual, (0, padded - case.n))
    return bias, residual


def _plain(case: LinearCase) -> "torch.dtype":
    from kernels.dtypes import DTYPES

    return DTYPES[case.dtype]
