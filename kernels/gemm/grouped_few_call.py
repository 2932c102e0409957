"""A call of a product of experts with few rows: packs the weights, checks the arguments, launches the kernel."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.check_args import check_out, check_presence, check_tensor
from kernels.cuda import nvrtc
from kernels.cuda.call import CudaCall, Prepared, launch_nothing
from kernels.cuda.launch import Launch, pack_struct
from kernels.cuda.occupancy import MAX_SHARED_BYTES
from kernels.dtypes import DTYPES
from kernels.gemm import skinny_call, skinny_pack
from kernels.gemm.skinny_tiles import KINDS, STEP_BYTES, STEP_K, TileConfig
from kernels.ops import GroupedCase
from kernels.ops.gated import SWIGLUOAI_ALPHA, SWIGLUOAI_LIMIT

SOURCE = Path(__file__).with_name("grouped_few.cu")
GATES = {"swiglu": 1, "swigluoai": 2}
"""`Gate` of grouped_few.cu by the epilogue."""
TILE_ROWS = 16
WARPS = 4
"""Warps of a block."""
MANY_UNITS = 4000
"""Units of 16 rows from which two warps divide k, below them all of a block. Measured with MXFP4 on an H200: four warps
are faster by 9 and 18 % with 1,440 and 720 units, two by 21 and 34 % with 11,520 and 5,760.
"""
PARAMS = np.dtype(
    [(name, np.uint64) for name in ("stream", "x", "token", "offs", "bias", "y")]
    + [(name, np.int32) for name in ("rows", "n", "k", "units", "steps", "x_bytes", "most")],
    align=True,
)
"""`Params` of grouped_few.cu."""


def config_of(case: GroupedCase) -> TileConfig:
    """The order of the stream: the experts' rows one below the other, in units of 16."""
    rows = case.experts * padded_rows(case)
    return TileConfig(str(case.weights), m=1, rows=rows, k=case.k, k_warps=1, warps=1)


def padded_rows(case: GroupedCase) -> int:
    """Rows of an expert's weights in the stream."""
    half = TILE_ROWS // 2
    return 2 * (-(-case.n // half) * half) if case.gates else -(-case.n // TILE_ROWS) * TILE_ROWS


def pack_experts(case: GroupedCase, weight: Tensor) -> Tensor:
    """w [experts, rows, k] as one stream, uint8; gates and ups in tiles of 8 rows. Raises ValueError for its shape."""
    if tuple(weight.shape) != (case.experts, case.weight_rows, case.k):
        shape = [case.experts, case.weight_rows, case.k]
        raise ValueError(f"weight has shape {list(weight.shape)}, not {shape}")
    rows = weight.detach().transpose(0, 1)
    if case.gates:
        order = torch.cat([rows[::2], rows[1::2]]) if case.epilogue == "swigluoai" else rows
        rows = skinny_pack.pair_gate_up(order)
    missing = padded_rows(case) - len(rows)
    padded = torch.nn.functional.pad(rows, (0, 0, 0, 0, 0, missing)).transpose(0, 1).flatten(0, 1)
    return skinny_call.pack_weight(config_of(case), padded, case.dtype, gates=False)[0]


def k_warps_of(case: GroupedCase) -> int:
    """Warps that divide k, for as many experts as can have rows."""
    units = padded_rows(case) // TILE_ROWS * min(case.rows, case.experts)
    return 2 if units >= MANY_UNITS else WARPS


def constants(case: GroupedCase, k_warps: int) -> dict[str, Any]:
    """The macros of grouped_few.cu."""
    return {
        "HALF": int(case.dtype == "fp16"), "WEIGHTS": KINDS.index(str(case.weights)), "SINGLE": 0, "ROW_TILES": 1,
        "N_TILES": tiles_of(case), "WARPS": WARPS, "K_WARPS": k_warps, "EXPERTS": case.experts,
        "GATE": GATES.get(case.epilogue, 0),
        "SWIGLUOAI_ALPHA": SWIGLUOAI_ALPHA, "SWIGLUOAI_LIMIT": SWIGLUOAI_LIMIT, "PARAMS_BYTES": PARAMS.itemsize,
    }  # fmt: skip


def tiles_of(case: GroupedCase) -> int:
    """Tiles of eight rows of x that a block multiplies at once: two where experts have more than two on average."""
    return 1 + (case.rows > 2 * case.experts)


def dynamic_most(case: GroupedCase) -> int:
    """The most dynamic shared memory of a block, in bytes, beside its static one."""
    return MAX_SHARED_BYTES - 4 * 8 * tiles_of(case) * (21 * WARPS + 1) - 256


def parameters(case: GroupedCase, max_rows: int | None = None, **kwargs: Any) -> tuple[Any, int]:
    """`Params` as a numpy scalar, what is not given is 0; and the dynamic shared memory."""
    steps = -(-case.k // STEP_K[str(case.weights)])
    x_bytes = -(-steps * STEP_K[str(case.weights)] * 2 // 128) * 128 + 64  # no two rows meet in a bank
    rows = max(1, min(8 * tiles_of(case), case.rows if max_rows is None else max_rows, dynamic_most(case) // x_bytes))
    own = {"rows": case.rows, "n": case.n, "k": case.k, "units": padded_rows(case) // TILE_ROWS, "steps": steps}
    own |= {"x_bytes": x_bytes, "most": rows}
    return pack_struct(PARAMS, **own, **kwargs), rows * x_bytes


def grid_of(case: GroupedCase, k_warps: int) -> tuple[int, int]:
    """Blocks of an expert, and experts that can have rows."""
    return -(-padded_rows(case) // TILE_ROWS * k_warps // WARPS), min(case.rows, case.experts)


class GroupedFew(CudaCall):
    """See `_GroupedFew.build`."""

    def __init__(self, case: GroupedCase, k_warps: int) -> None:
        super().__init__()
        self.case, self.k_warps = case, k_warps
        self.compiled = nvrtc.Build.of(SOURCE, constants(case, k_warps))

    def _prepare(
        self,
        check: bool,
        stream: int,
        out: Any,
        x: Tensor,
        w: Tensor,
        offs: Tensor,
        most: int | None = None,
        **kwargs: Tensor,
    ) -> Prepared:
        case = self.case
        if check:
            self._check(x, w, offs, out, **kwargs)
        allocate = partial(torch.empty, case.rows, case.n, dtype=x.dtype, device=x.device)
        if not case.rows:
            return Prepared(allocate, lambda _: launch_nothing)
        params, shared = parameters(case, most, stream=w, x=x, offs=offs, **kwargs)
        grid = grid_of(case, self.k_warps)
        entry = nvrtc.kernel(self.compiled, "grouped_few", dynamic_most(case))

        def bind(y: Tensor) -> Launch:
            mine = params.copy()
            mine["y"] = y.data_ptr()
            return Launch(entry, grid, 32 * WARPS, (mine,), stream, shared, pdl=True)

        return Prepared(allocate, bind)

    def _check(
        self,
        x: Tensor,
        w: Tensor,
        offs: Tensor,
        out: Tensor | None,
        token: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> None:
        case, dtype = self.case, (DTYPES[self.case.dtype],)
        check_tensor("x", x, (None if case.gathers else case.rows, case.k), dtype, layout="contiguous", aligned=16)
        config = config_of(case)
        stream_bytes = config.units * config.steps * STEP_BYTES[config.kind]
        check_tensor("w", w, (stream_bytes,), (torch.uint8,), layout="contiguous", aligned=16)
        check_tensor("offs", offs, (case.experts,), (torch.int32,), layout="contiguous")
        check_presence("token", token, bool(case.gathers), f"gathers is {case.gathers}")
        if token is not None:
            check_tensor("token", token, (case.rows,), (torch.int64,), layout="contiguous")
        check_presence("bias", bias, case.adds_bias, f"epilogue is {case.epilogue}")
        if bias is not None:
            check_tensor("bias", bias, (case.experts, case.weight_rows), dtype, layout="contiguous")
        check_out(out, (case.rows, case.n), dtype)
