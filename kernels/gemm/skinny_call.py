"""A skinny product to be called: packs its weight, checks its arguments, launches its kernel. Needs CUDA to run."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.check_args import check_presence, check_tensor
from kernels.cuda import nvrtc
from kernels.dtypes import DTYPES
from kernels.gemm import skinny_pack as order
from kernels.gemm.quantise import quantised
from kernels.gemm.skinny_cut import KINDS, SHARED_MOST, STEP_K, Cut, can_claim
from kernels.ops import LinearCase
from kernels.proof.reference import EPSILON

SOURCE = Path(__file__).with_name("skinny.cu")

DIRECT_MOST = 20 << 10
"""Bytes of x that a block's threads bring at once; it is quicker than a copy where x then becomes fp16."""

OWN_MOST = 8
"""Loads of x that a lane has on their way at once."""

PARAMS = np.dtype(
    [(name, np.uint64) for name in ("stream", "x", "row_scales", "bias", "residual", "y", "claims")]
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
            "overlap",
            "ahead",
            "late",
            "dealt",
        )
    ]
    + [("eps", np.float32)],
    align=True,
)
"""`Params` of skinny_stream.cuh."""


def packed(cut: Cut, weight: Tensor, dtype: str, gates: bool) -> tuple[Tensor, ...]:
    """A weight [rows, k] as (stream uint8,) or, for fp8 and nvfp4, (stream, scale of each packed row float32)."""
    arranged = order.paired if gates else _as_it_is
    if cut.kind == "same":
        return (order.pack_same(arranged(weight), cut),)
    zero = cut.kind == "int4_zero"
    held = quantised(weight, "int4" if zero else cut.kind, dtype, zero)
    codes = arranged(held.codes.view(torch.uint8))
    if cut.kind == "fp8":
        return order.pack_fp8(codes, cut), order.padded_rows(arranged(held.scales), cut)
    if held.zeros is None:
        placed = replace(held, codes=codes, scales=arranged(held.scales.view(torch.uint8)))
        scales = torch.full((cut.units * cut.unit_rows,), held.tensor_scale * 2**14, device=weight.device)
        return order.pack_nvfp4(placed, cut), scales
    placed = replace(held, codes=codes, scales=arranged(held.scales), zeros=arranged(held.zeros))
    return (order.pack_int4(placed, cut),)


def _as_it_is(weight: Tensor) -> Tensor:
    return weight


def macros(cut: Cut, dtype: str, gates: bool, normalises: bool, claims: bool = False) -> dict[str, int]:
    """What skinny.cuh is compiled with."""
    own = own_loads(cut, dtype, normalises)
    return {
        "HALF": int(dtype == "fp16"),
        "WEIGHTS": KINDS.index(cut.kind),
        "SINGLE": int(cut.m == 1),
        "N_TILES": 2 if cut.m > 8 else 1,
        "WARPS": cut.warps,
        "K_WARPS": cut.k_warps,
        "ROW_TILES": cut.row_tiles,
        "SPLITS": cut.splits,
        "CHUNK": cut.chunk,
        "PAIRED": int(gates),
        "NORM": int(normalises),
        "BLOCKS": cut.blocks,
        "KEEP": int(cut.keep or cut.splits > 1),
        "OWN_X": own,
        "CLAIMS": int(claims),
        "DIRECT": int(own > 0 or (cut.kind != "same" and dtype == "bf16" and 2 * cut.m * cut.split_k <= DIRECT_MOST)),
    }


def own_loads(cut: Cut, dtype: str, normalises: bool) -> int:
    """Loads of 16 bytes by which each lane brings the columns of a single row of x that its warp multiplies.

    0: x comes otherwise, by a copy where nothing is to be done with it.
    """
    loads = -(-cut.steps * STEP_K[cut.kind] // (8 * 32))
    changes = normalises or (cut.kind != "same" and dtype == "bf16")
    return loads if cut.m == 1 and changes and loads <= OWN_MOST else 0


@cache
def kernel(source: Path, entry: str, given: tuple[tuple[str, int], ...], shared_bytes: int = SHARED_MOST) -> Any:
    """The compiled entry, one for each set of macros; what it declares as static shared memory counts beside."""
    return nvrtc.load(source, entry, dict(given), shared_bytes)


@cache
def sm_count(device: int) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def parameters(cut: Cut, sms: int, overlap: bool, ahead: int = 0, **given: Any) -> Any:
    """`Params` as a numpy scalar; what is not given is 0. Raises ValueError where no ring fits on so few SMs."""
    found = np.zeros((), PARAMS)
    own = {
        "m": cut.m, "k": cut.k, "units": cut.units, "steps": cut.steps, "x_bytes": cut.x_bytes,
        "stages": cut.stages(sms, overlap), "kept_units": cut.kept_units(sms),
        "most_units": cut.most_units(sms), "overlap": overlap, "ahead": ahead // (cut.chunk * cut.step_bytes),
        "dealt": cut.dealt_units(sms, overlap) if "claims" in given else cut.units,
    }  # fmt: skip
    if not own["stages"]:
        raise ValueError(f"m is {cut.m}: with {sms} SMs each has too many rows of w for the shared memory")
    for name, value in (own | given).items():
        found[name] = value.data_ptr() if isinstance(value, Tensor) else value
    return found


class Claims:
    """Two counters for each weight, by which the blocks of a launch share out its last units. They are 0 whenever no
    launch runs, and two launches with one weight must not run at once."""

    def __init__(self) -> None:
        self._held: dict[int, Tensor] = {}

    def of(self, w: tuple[Tensor, ...]) -> Tensor:
        """Raises ValueError where a graph would be the first to use them: it alone would make them 0."""
        key = w[0].data_ptr()
        if key not in self._held:
            if torch.cuda.is_current_stream_capturing():
                raise ValueError("w has not been multiplied yet: call once with claims before a graph captures it")
            self._held[key] = torch.zeros(2, dtype=torch.int32, device=w[0].device)
        return self._held[key]


class SkinnyLinear:
    """f(x [m, k], w, bias=None [n], residual=None [m, n], eps) -> y [m, n], w as `packed` returns it.

    `ahead` is how many bytes beyond the ring each block brings into the L2 while the kernel before it still runs;
    `late` lets the next kernel begin only when all weights of this one are on their way; with `claims` blocks share
    out the last units as they come to them.
    """

    def __init__(
        self, case: LinearCase, cut: Cut, overlap: bool, ahead: int = 0, late: bool = False, claims: bool = False
    ) -> None:
        self.case, self.cut, self.overlap, self.ahead, self.late = case, cut, overlap, ahead if overlap else 0, late
        self.claims = Claims() if claims and can_claim(cut, case) else None
        claiming = self.claims is not None
        self.macros = tuple(macros(cut, case.dtype, case.gates, case.normalises, claiming).items())

    def __call__(
        self,
        x: Tensor,
        w: tuple[Tensor, ...],
        bias: Tensor | None = None,
        residual: Tensor | None = None,
        eps: float = EPSILON,
    ) -> Tensor:
        case, cut = self.case, self.cut
        self._check(x, w, bias, residual)
        y = torch.empty(case.m, case.n, dtype=x.dtype, device=x.device)
        if case.m == 0:
            return y
        sms = sm_count(x.device.index)
        given = {"bias": bias, "residual": residual, "row_scales": w[1] if len(w) > 1 else None}
        there = {name: value for name, value in given.items() if value is not None}
        there |= {"stream": w[0], "x": x, "y": y}
        if self.claims is not None:
            there["claims"] = self.claims.of(w)
        params = parameters(cut, sms, self.overlap, self.ahead, late=self.late, n=case.n, eps=eps, **there)
        shared = cut.shared_bytes(sms, self.overlap)
        nvrtc.launch(
            kernel(SOURCE, "skinny_linear", self.macros),
            (cut.groups(sms) * cut.splits,),
            cut.warps * 32 + 64,
            (params,),
            shared,
            self.overlap,
        )
        return y

    def _check(self, x: Tensor, w: tuple[Tensor, ...], bias: Tensor | None, residual: Tensor | None) -> None:
        case = self.case
        dtype = (DTYPES[case.dtype],)
        check_tensor("x", x, (case.m, case.k), dtype, layout="contiguous", aligned=16)
        check_stream(w, self.cut)
        check_additions(case, bias, residual)


def check_additions(case: LinearCase, bias: Tensor | None, residual: Tensor | None, aligned: int = 1) -> None:
    """Raises ValueError unless bias [n] and residual [m, n] are given where the epilogue takes them, contiguous.

    The residual begins at a multiple of `aligned` bytes.
    """
    dtype, because = (DTYPES[case.dtype],), f"epilogue is {case.epilogue}"
    check_presence("bias", bias, case.adds_bias, because)
    if bias is not None:
        check_tensor("bias", bias, (case.n,), dtype, layout="contiguous")
    check_presence("residual", residual, case.epilogue == "residual", because)
    if residual is not None:
        check_tensor("residual", residual, (case.m, case.n), dtype, layout="contiguous", aligned=aligned)


def check_stream(w: tuple[Tensor, ...], cut: Cut) -> None:
    """Raises ValueError when w is not a weight packed for this cut."""
    if not isinstance(w, tuple | list) or len(w) != (2 if cut.kind in ("fp8", "nvfp4") else 1):
        raise ValueError(f"w is not what pack returns for {cut.kind} weights")
    stream_bytes = cut.units * cut.splits * cut.steps * cut.step_bytes
    check_tensor("w[0]", w[0], (stream_bytes,), (torch.uint8,), layout="contiguous", aligned=16)
    if len(w) > 1:
        check_tensor("w[1]", w[1], (cut.units * cut.unit_rows,), (torch.float32,), layout="contiguous")
