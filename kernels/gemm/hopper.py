"""`gemm_hopper`: large matrix products by hand for sm_90a, with the epilogue in the same pass."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.gemm.hopper_plan import Tile, space, tile_of
from kernels.hardware import Gpu
from kernels.ops import LinearCase
from kernels.registry import Refusal, Variant, register

if TYPE_CHECKING:
    import torch

SOURCE = Path(__file__).with_name("hopper.cu")
THREADS = 384
PARAMS = np.dtype(
    [(name, np.uint64) for name in ("bias", "x_scales", "w_scales", "y_scales")]
    + [(name, np.int32) for name in ("rows", "columns", "k", "row_tiles", "column_tiles", "group", "scale_stride")]
    + [("epsilon", np.float32)],
    align=True,
)
"""`struct Params` of hopper.cu."""

C_TYPES = {"bf16": "bf16", "fp16": "f16"}
KINDS = {
    "none": "kNone", "bias": "kBias", "residual": "kResidual", "swiglu": "kSwiglu", "quantise": "kQuantise",
    "rmsnorm_scale": "kNone", "rmsnorm_scale_bias": "kBias", "rmsnorm_scale_swiglu": "kSwiglu",
}  # fmt: skip
INTERLEAVED = 8
"""Rows of gate, then of up, that `pack` lays alternately for swiglu."""

QUANTISED = 128
"""Columns of y that share one scale of a row when it is quantised."""


@register
class GemmHopper(Variant):
    """Persistent, warp-specialised products of bf16 or fp16; docs/kernels/gemm-hopper.md."""

    name = "gemm_hopper"
    op = "linear"
    summary = "large products on wgmma and the copy engine, epilogue fused"

    def serves(self, case: LinearCase, gpu: Gpu) -> Refusal | None:
        if gpu.sm != 90:
            return Refusal(f"gpu_class is {gpu.gpu_class}: this variant is built for sm_90a only")
        if case.dtype not in C_TYPES or case.weights != case.dtype:
            return Refusal(f"dtype is {case.dtype} and weights {case.weights}: bf16 times bf16 or fp16 times fp16 only")
        if case.k % 8:
            return Refusal(f"k is {case.k}: rows of x and w must be a multiple of 16 bytes")
        if case.gates and case.n % INTERLEAVED:
            return Refusal(f"n is {case.n}: gate and up are interleaved by {INTERLEAVED} rows")
        return None

    def space(self, case: LinearCase) -> list[dict[str, Any]]:
        return space(case)

    def pack(self, case: LinearCase, params: dict[str, Any], weight: "torch.Tensor") -> "torch.Tensor":
        """w as it is; for swiglu 8 rows of gate and the 8 of up that belong to them by turns, [2n, k]."""
        if not case.gates:
            return weight
        return weight.view(2, -1, INTERLEAVED, case.k).transpose(0, 1).reshape(2 * case.n, case.k)

    def build(self, case: LinearCase, params: dict[str, Any]) -> "Callable[..., Any]":
        """f(x [m, k], w, bias=None [n], residual=None [m, n], eps=1e-6) -> y [m, n].

        `quantise` gives (values e4m3 [m, n], scales float32 [m, ⌈n / 128⌉]), a scale for each row and 128 columns.
        Raises ValueError that names the argument: of another shape, dtype or device, misaligned, not contiguous.
        """
        from kernels import nvrtc
        from kernels.reference import EPSILON

        tile = tile_of(case, params)
        kernel = nvrtc.load(SOURCE, "gemm", constants(case, tile), tile.shared_bytes)

        def product(x: Any, w: Any, bias: Any = None, residual: Any = None, eps: float = EPSILON) -> Any:
            return run(kernel, case, tile, x, w, bias, residual, eps)

        return product


def constants(case: LinearCase, tile: Tile) -> dict[str, Any]:
    """The macros of hopper.cu for a case."""
    plain = C_TYPES[case.dtype]
    return {
        "TYPE": plain, "OUT": "e4m3" if case.epilogue == "quantise" else plain, "EPILOGUE": KINDS[case.epilogue],
        "NORMALISE": int(case.normalises), "BN": tile.columns, "STAGES": tile.stages, "PANELS": tile.panels,
    }  # fmt: skip


def run(
    kernel: Any,
    case: LinearCase,
    tile: Tile,
    x: "torch.Tensor",
    w: "torch.Tensor",
    bias: "torch.Tensor | None",
    residual: "torch.Tensor | None",
    eps: float,
) -> Any:
    """One product: outputs allocated, maps encoded, the kernel enqueued on torch's current stream."""
    import torch

    m = x.shape[0]
    _expect("x", x, (m, case.k), case)
    _expect("w", w, (case.weight_rows, case.k), case)
    quantised = case.epilogue == "quantise"
    padded = -(-case.n // 16) * 16 if quantised else -(-case.n // 8) * 8  # rows of y begin at multiples of 16 bytes
    y = torch.empty(m, padded, dtype=torch.float8_e4m3fn if quantised else x.dtype, device=x.device)[:, : case.n]
    scales = torch.empty(m if quantised else 0, -(-case.n // QUANTISED), dtype=torch.float32, device=x.device)
    if m:
        bias, residual = _added(case, m, padded, bias, residual)
        filled = np.zeros((), PARAMS)
        filled["bias"] = bias.data_ptr() if bias is not None else 0
        filled["y_scales"], filled["epsilon"] = scales.data_ptr(), eps
        _launch(kernel, case, tile, filled, x, w, y, residual, scales.shape[1])
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
    scale_stride: int,
) -> None:
    from kernels import nvrtc

    m, step = x.shape[0], 128 // x.element_size()
    row_tiles, column_tiles = -(-m // 128), -(-case.weight_rows // tile.columns)
    values = (m, case.n, case.k, row_tiles, column_tiles, tile.group, scale_stride)
    for name, value in zip(PARAMS.names[4:-1], values, strict=True):  # type: ignore[index]
        filled[name] = value
    y_box = (64, 128 // y.element_size())
    x_map, w_map, y_map = _map("x", x, (128, step)), _map("w", w, (tile.columns // 2, step)), _map("y", y, y_box)
    residual_map = y_map if residual is None else _map("residual", residual, y_box)
    blocks = 2 * min(-(-row_tiles // 2) * column_tiles, _pairs(x.device.index))
    nvrtc.launch(kernel, (blocks,), THREADS, (x_map, w_map, y_map, residual_map, filled), tile.shared_bytes)


def _added(
    case: LinearCase, m: int, padded: int, bias: "torch.Tensor | None", residual: "torch.Tensor | None"
) -> "tuple[torch.Tensor | None, torch.Tensor | None]":
    """Bias and residual as the kernel reads them: rows that begin at multiples of 16 bytes."""
    from torch.nn.functional import pad

    wanted = {"bias": case.adds_bias, "residual": case.epilogue == "residual"}
    for name, tensor, shape in (("bias", bias, (case.n,)), ("residual", residual, (m, case.n))):
        if (tensor is not None) != wanted[name]:
            raise ValueError(f"{name} is {'given' if tensor is not None else 'missing'}: epilogue is {case.epilogue}")
        if tensor is not None:
            _expect(name, tensor, shape, case)
    if bias is not None and (padded != case.n or bias.data_ptr() % 4):
        bias = pad(bias, (0, padded - case.n)) if padded != case.n else bias.clone()
    if residual is not None and padded != case.n:
        residual = pad(residual, (0, padded - case.n))
    return bias, residual


def _expect(name: str, tensor: "torch.Tensor", shape: tuple[int, ...], case: LinearCase) -> None:
    from kernels.inputs import DTYPES

    if tuple(tensor.shape) != shape or tensor.dtype != DTYPES[case.dtype] or tensor.device.type != "cuda":
        raise ValueError(
            f"{name} is {tensor.dtype} {list(tensor.shape)} on {tensor.device}, "
            f"where the case takes {DTYPES[case.dtype]} {list(shape)} on a GPU"
        )


def _map(name: str, tensor: "torch.Tensor", box: tuple[int, int]) -> Any:
    from kernels.tiles import maps

    try:
        return maps.encode(tensor, box)
    except ValueError as refusal:
        raise ValueError(f"{name}: {refusal}") from None


def _pairs(device: int) -> int:
    """Clusters of two blocks that the GPU runs at a time."""
    import torch

    return torch.cuda.get_device_properties(device).multi_processor_count // 2
