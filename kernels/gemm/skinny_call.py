"""A call of a skinny product: packs the weight, checks the arguments, launches the kernel. Needs CUDA to run."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.check_args import check_additions, check_out, check_tensor
from kernels.cuda import nvrtc
from kernels.cuda.call import CudaCall, Prepared, launch_nothing, pointers
from kernels.cuda.launch import Launch, pack_struct
from kernels.cuda.occupancy import MAX_SHARED_BYTES
from kernels.dtypes import DTYPES
from kernels.gemm import skinny_pack as order
from kernels.gemm.skinny_tiles import KINDS, STEP_K, TileConfig, can_schedule_dynamically
from kernels.ops import LinearCase
from kernels.ops.linear import LinearArguments
from kernels.quant.absmax import quantise_absmax

SOURCE = Path(__file__).with_name("skinny.cu")

MAX_DIRECT_BYTES = 20 << 10
"""Bytes of x up to which a block's threads load it themselves: faster than a bulk copy if it becomes fp16."""

MAX_LOADS_IN_FLIGHT = 8
"""The most loads of x that a lane has in flight."""

PARAMS = np.dtype(
    [(name, np.uint64) for name in ("stream", "x", "row_scales", "bias", "residual", "y", "counters")]
    + [
        (name, np.int32)
        for name in (
            "m",
            "n",
            "k",
            "units",
            "steps",
            "x_bytes",
            "stages",
            "kept_units",
            "most_units",
            "pdl",
            "l2_prefetch",
            "late_trigger",
            "static_units",
        )
    ]
    + [("eps", np.float32)],
    align=True,
)
"""`Params` of skinny_stream.cuh."""


def pack_weight(config: TileConfig, weight: Tensor, dtype: str, gates: bool) -> tuple[Tensor, ...]:
    """A weight [rows, k] as (stream uint8,) or, for fp8 and nvfp4, (stream, scale of each packed row float32)."""
    arranged = order.pair_gate_up if gates else lambda rows: rows
    if config.kind == "same":
        return (order.pack_16bit(arranged(weight), config),)
    quantised = quantise_absmax(weight, config.kind)
    codes = arranged(quantised.codes.view(torch.uint8))
    if config.kind == "fp8":
        return order.pack_fp8(codes, config), order.pad_rows(arranged(quantised.scales), config)
    if config.kind == "nvfp4":
        packed = replace(quantised, codes=codes, scales=arranged(quantised.scales.view(torch.uint8)))
        scales = torch.full((config.units * config.unit_rows,), quantised.tensor_scale * 2**14, device=weight.device)
        return order.pack_nvfp4(packed, config), scales
    zeros = None if quantised.zeros is None else arranged(quantised.zeros)
    packed = replace(quantised, codes=codes, scales=arranged(quantised.scales), zeros=zeros)
    packs = {"int8": order.pack_int8, "mxfp4": order.pack_mxfp4}
    return (packs.get(config.kind, order.pack_int4)(packed, config),)


def macros(config: TileConfig, dtype: str, gates: bool, normalises: bool, dynamic: bool = False) -> dict[str, int]:
    """The macros of skinny.cuh."""
    loads = own_loads(config, dtype, normalises)
    return {
        "HALF": int(dtype == "fp16"),
        "WEIGHTS": KINDS.index(config.kind),
        "SINGLE": int(config.m == 1),
        "N_TILES": 2 if config.m > 8 else 1,
        "WARPS": config.warps,
        "K_WARPS": config.k_warps,
        "ROW_TILES": config.row_tiles,
        "SPLITS": config.splits,
        "CHUNK": config.chunk,
        "PAIRED": int(gates),
        "NORM": int(normalises),
        "BLOCKS": config.blocks,
        "KEEP": int(config.keep or config.splits > 1),
        "OWN_X": loads,
        "DYNAMIC_SCHEDULER": int(dynamic),
        "PARAMS_BYTES": PARAMS.itemsize,
        "SHARED_BYTES": config.struct_bytes,
        "DIRECT": int(
            loads > 0
            or (config.kind != "same" and dtype == "bf16" and 2 * config.m * config.split_k <= MAX_DIRECT_BYTES)
        ),
    }


def own_loads(config: TileConfig, dtype: str, normalises: bool) -> int:
    """The 16-byte loads by which lanes fetch their columns of x's only row; 0: x is loaded in another way."""
    loads = -(-config.steps * STEP_K[config.kind] // (8 * 32))
    changes = normalises or (config.kind != "same" and dtype == "bf16")
    return loads if config.m == 1 and changes and loads <= MAX_LOADS_IN_FLIGHT else 0


def build_of(config: TileConfig, case: LinearCase, dynamic: bool) -> nvrtc.Build:
    """skinny.cu for a case, with a dynamic scheduler if that is asked for and possible."""
    dynamic = dynamic and can_schedule_dynamically(config, case)
    return nvrtc.Build.of(SOURCE, macros(config, case.dtype, case.gates, case.normalises, dynamic))


def parameters(config: TileConfig, max_active: int, pdl: bool, prefetch_bytes: int = 0, **kwargs: Any) -> Any:
    """`Params`, 0 where not given. Raises ValueError where too few clusters run at once to leave room for a ring."""
    own = {
        "m": config.m, "k": config.k, "units": config.units, "steps": config.steps, "x_bytes": config.x_bytes,
        "stages": config.stages(max_active, pdl), "kept_units": config.kept_units(max_active),
        "most_units": config.most_units(max_active), "pdl": pdl,
        "l2_prefetch": prefetch_bytes // (config.chunk * config.step_bytes),
        "static_units": config.static_units(max_active, pdl) if "counters" in kwargs else config.units,
    }  # fmt: skip
    if not own["stages"]:
        clusters = f"{max_active} clusters of {config.splits}"
        raise ValueError(f"m is {config.m}: {clusters} at once have too many rows of w each for the shared memory")
    return pack_struct(PARAMS, **own, **kwargs)


class SchedulerCounters:
    """Two int32 counters of each weight's dynamic scheduler, 0 between launches, which must not overlap."""

    def __init__(self) -> None:
        self._counters: dict[int, Tensor] = {}

    def of(self, w: tuple[Tensor, ...]) -> Tensor:
        """The weight's counters. Raises ValueError if first used under graph capture: only a replay would zero them."""
        key = w[0].data_ptr()
        if key not in self._counters:
            if torch.cuda.is_current_stream_capturing():
                raise ValueError("w has not been multiplied yet: call once before a graph captures it")
            self._counters[key] = torch.zeros(2, dtype=torch.int32, device=w[0].device)
        return self._counters[key]


class SkinnyLinear(CudaCall):
    """f(x [m, k], w [n, k], bias=None [n], residual=None [m, n], eps) -> y [m, n], w as `pack_weight` returns it.
    `prefetch_bytes` beyond the ring go into the L2 ahead; `late_trigger`: the next kernel begins when all weights are
    requested; `dynamic`: a scheduler assigns the last units.
    """

    open_layout = staticmethod(pointers)

    def __init__(
        self,
        case: LinearCase,
        config: TileConfig,
        pdl: bool,
        prefetch_bytes: int = 0,
        late_trigger: bool = False,
        dynamic: bool = False,
    ) -> None:
        super().__init__()
        self.case, self.config, self.pdl, self.late_trigger = case, config, pdl, late_trigger
        self.prefetch_bytes = prefetch_bytes if pdl else 0
        self.counters = SchedulerCounters() if dynamic and can_schedule_dynamically(config, case) else None
        self.compiled = build_of(config, case, dynamic)

    def _prepare(self, check: bool, stream: int, out: Any, /, *arguments: Any, **kwargs: Any) -> Prepared:
        x, w, bias, residual, eps = LinearArguments(*arguments, **kwargs)
        case, config = self.case, self.config
        if check:
            self._check(x, w, bias, residual, out)
        allocate = partial(torch.empty, case.m, case.n, dtype=x.dtype, device=x.device)
        if case.m == 0:
            return Prepared(allocate, lambda _: launch_nothing)
        max_active = config.max_active()
        given: dict[str, Any] = {"stream": w[0], "x": x, "bias": bias, "residual": residual, "n": case.n, "eps": eps}
        given |= {"row_scales": w[1] if len(w) > 1 else None, "late_trigger": self.late_trigger}
        if self.counters is not None:
            given["counters"] = self.counters.of(w)
        params = parameters(config, max_active, self.pdl, self.prefetch_bytes, **given)
        shared, grid = config.shared_bytes(max_active, self.pdl), (config.groups(max_active) * config.splits,)
        entry = nvrtc.kernel(self.compiled, "skinny_linear", MAX_SHARED_BYTES)

        def bind(y: Tensor) -> Launch:
            mine = params.copy()
            mine["y"] = y.data_ptr()
            return Launch(entry, grid, config.threads, (mine,), stream, shared, self.pdl)

        return Prepared(allocate, bind)

    def _check(
        self, x: Tensor, w: tuple[Tensor, ...], bias: Tensor | None, residual: Tensor | None, out: Tensor | None
    ) -> None:
        case = self.case
        dtype = (DTYPES[case.dtype],)
        check_tensor("x", x, (case.m, case.k), dtype, layout="contiguous", aligned=16)
        check_stream(w, self.config)
        check_additions(case, case.m, bias, residual)
        check_out(out, (case.m, case.n), dtype)


def check_stream(w: tuple[Tensor, ...], config: TileConfig) -> None:
    """Raises ValueError when w is not a weight packed for this tile config."""
    if not isinstance(w, tuple | list) or len(w) != (2 if config.kind in ("fp8", "nvfp4") else 1):
        raise ValueError(f"w is not what pack returns for {config.kind} weights")
    stream_bytes = config.units * config.splits * config.steps * config.step_bytes
    check_tensor("w[0]", w[0], (stream_bytes,), (torch.uint8,), layout="contiguous", aligned=16)
    if len(w) > 1:
        check_tensor("w[1]", w[1], (config.units * config.unit_rows,), (torch.float32,), layout="contiguous")
