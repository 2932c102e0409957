"""`grouped_hopper`: the products of a mixture-of-experts layer in one launch, by hand for sm_90a."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.check_args import check_served, check_tensor
from kernels.gemm.hopper_call import C_TYPES, INTERLEAVED, THREADS, interleaved
from kernels.gemm.hopper_plan import PAIRS, ROW_BYTES, SHARED_MOST
from kernels.hardware import Gpu
from kernels.ops import GroupedCase
from kernels.registry import Refusal, Variant, register
from kernels.tiles.maps import named

if TYPE_CHECKING:
    import torch

SOURCE = Path(__file__).with_name("grouped.cu")
MOST_EXPERTS = 512
MOST_ROWS, COLUMNS, STAGED_ROWS = 256, 128, 128
"""Of a tile: the most rows of x, the rows of w, the rows of y that wait for their way out at a time."""

X_BOXES = (64, 32, 16, 8)
"""Rows of x that one copy brings."""

PARAMS = np.dtype(
    [("ends", np.uint64), ("y", np.uint64)]
    + [(name, np.int32) for name in ("rows", "columns", "k", "weight_rows", "column_pairs")],
    align=True,
)
"""`struct GroupedParams` of grouped.cu."""


@register
class GroupedHopper(Variant):
    """One persistent launch for all experts; docs/kernels/grouped-hopper.md."""

    name = "grouped_hopper"
    op = "grouped"
    page = "grouped-hopper"
    summary = "all experts' products in one persistent launch"

    def serves(self, case: GroupedCase, gpu: Gpu) -> Refusal | None:
        if gpu.sm != 90:
            return Refusal(f"device is {gpu.name}: this variant is built for sm_90a only")
        if case.dtype not in C_TYPES:
            return Refusal(f"dtype is {case.dtype}: this variant multiplies bf16 or fp16")
        if case.k % 8 or case.n % INTERLEAVED:
            return Refusal(f"n is {case.n} and k {case.k}: rows of y, x and w must be a multiple of 16 bytes")
        if case.experts > MOST_EXPERTS:
            return Refusal(f"experts is {case.experts}: this variant counts at most {MOST_EXPERTS}")
        return None

    def pack(self, case: GroupedCase, params: dict[str, Any], weight: "torch.Tensor") -> "torch.Tensor":
        """w as it is; for swiglu each expert's gate and up interleaved by 8 rows, [experts, 2n, k]."""
        if case.epilogue != "swiglu":
            return weight
        import torch

        return torch.stack([interleaved(each) for each in weight])

    def build(self, case: GroupedCase, params: dict[str, Any]) -> "Callable[..., torch.Tensor]":
        """f(x [rows, k], w [experts, n, k], ends [experts] int32) -> y [rows, n], rows sorted by expert.

        `ends` never leaves the device; one that is out of order or beyond the rows reads and writes nothing outside
        them. Rows behind the last end are not written. Raises ValueError that names the argument.
        """
        from kernels.cuda import nvrtc

        check_served(self, case)
        if params:
            raise ValueError(f"grouped_hopper takes no params, not {', '.join(sorted(params))}")
        found, shared_bytes = constants(case)
        kernel = nvrtc.load(SOURCE, "grouped", found, shared_bytes)

        def product(x: "torch.Tensor", w: "torch.Tensor", ends: "torch.Tensor") -> "torch.Tensor":
            return _run(kernel, case, shared_bytes, x, w, ends)

        return product


def constants(case: GroupedCase) -> tuple[dict[str, Any], int]:
    """The macros of grouped.cu and its dynamic shared memory: as many stages as fit."""
    gates = case.epilogue == "swiglu"
    other = 2 * STAGED_ROWS * (ROW_BYTES // 2 if gates else ROW_BYTES) + 16 * case.experts + 256
    stage = (COLUMNS + MOST_ROWS) * ROW_BYTES
    stages = (SHARED_MOST - other) // stage
    found = {
        "TYPE": C_TYPES[case.dtype], "EPILOGUE": "kSwiglu" if gates else "kNone", "STAGES": stages,
        "EXPERTS": case.experts, "PARAMS_BYTES": PARAMS.itemsize, "SHARED_BYTES": stages * stage + other,
    }  # fmt: skip
    return found, stages * stage + other


def _run(
    kernel: Any,
    case: GroupedCase,
    shared_bytes: int,
    x: "torch.Tensor",
    w: "torch.Tensor",
    ends: "torch.Tensor",
) -> "torch.Tensor":
    import torch

    from kernels.cuda import nvrtc
    from kernels.dtypes import DTYPES

    dtype = DTYPES[case.dtype]
    check_tensor("x", x, (None, case.k), (dtype,))
    check_tensor("w", w, (case.experts, case.weight_rows, case.k), (dtype,), layout="contiguous")
    check_tensor("ends", ends, (case.experts,), (torch.int32,), layout="contiguous")
    rows = x.shape[0]
    y = torch.empty(rows, case.n, dtype=dtype, device=x.device)
    if not rows:
        return y
    pairs = -(-case.weight_rows // (2 * COLUMNS))
    filled = np.zeros((), PARAMS)
    for name, value in zip(
        PARAMS.names or (),
        (ends.data_ptr(), y.data_ptr(), rows, case.n, case.k, case.weight_rows, pairs),
        strict=True,
    ):
        filled[name] = value
    boxes = [named("x", x, (size, 64)) for size in X_BOXES]
    w_map = named("w", w.view(-1, case.k), (COLUMNS, 64))
    most_tiles = rows // MOST_ROWS + case.experts  # each expert may end in the middle of a tile
    nvrtc.launch(kernel, (2 * min(PAIRS, most_tiles * pairs),), THREADS, (*boxes, w_map, filled), shared_bytes)
    return y
