"""A call of fft_conv.cu: checks the arguments, packs them, launches. Needs CUDA."""

from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.check_args import check_out, check_presence, check_tensor
from kernels.cuda import nvrtc
from kernels.cuda.call import CudaCall, Prepared
from kernels.cuda.launch import Launch
from kernels.dtypes import DTYPES
from kernels.fft.fft_tiles import PARAMS, SOURCE, FftConfig
from kernels.ops import FftConvCase


def build_of(case: FftConvCase, config: FftConfig) -> nvrtc.Build:
    return nvrtc.Build.of(SOURCE, config.macros(case))


@cache
def _kernel(device: int, build: nvrtc.Build, shared_bytes: int) -> Any:
    """The kernel on torch's current GPU, `device`: each has a shared-memory limit of its own."""
    return nvrtc.load(build, "fft_conv", shared_bytes)


class FftConv(CudaCall):
    """f(u [batch, width, length], w, w_pre=None, w_post=None, d=None) -> y, of u's shape and dtype.

    w is what `fft_tiles.spectrum` made. The other tensors are contiguous.
    """

    def __init__(self, case: FftConvCase, config: FftConfig) -> None:
        super().__init__()
        self.case, self.config, self.compiled = case, config, build_of(case, config)

    def _prepare(
        self,
        check: bool,
        stream: int,
        out: Any,
        /,
        u: Tensor,
        w: tuple[Tensor, Tensor],
        w_pre: Tensor | None = None,
        w_post: Tensor | None = None,
        d: Tensor | None = None,
    ) -> Prepared:
        case, config = self.case, self.config
        if check:
            check_call(case, (u, w_pre, w_post), w, d, out, config.points)
        kernel = _kernel(torch.cuda.current_device(), self.compiled, config.shared_bytes)
        params = packed_params(case, (u, w_pre, w_post), w, d)
        grid = min(-(-case.batch * case.width // config.sequences), self._sms(u.device) * config.blocks)

        def bind(y: Tensor) -> Launch:
            mine = params.copy()
            mine["y"] = y.data_ptr()
            return Launch(kernel, (grid,), config.threads, (mine,), stream, config.shared_bytes)

        return Prepared(partial(torch.empty, *u.shape, dtype=u.dtype, device=u.device), bind)


def packed_params(
    case: FftConvCase, values: tuple[Tensor, Tensor | None, Tensor | None], w: tuple[Tensor, Tensor], d: Tensor | None
) -> Any:
    """`struct Params` of u, w_pre, w_post, the packed w and d, without y."""
    params = np.zeros((), PARAMS)
    named = dict(zip(("u", "before", "after"), values, strict=True)) | {"spectrum": w[0], "scales": w[1], "skip": d}
    for name, tensor in named.items():
        params[name] = 0 if tensor is None else tensor.data_ptr()
    params["batch"], params["width"], params["length"] = case.batch, case.width, case.length
    params["per_filter"] = case.width // len(w[0])
    places = case.length * 2 | int(params["u"]) | int(params["before"]) | int(params["after"])
    params["in_fours"] = places % 8 == 0
    params["prefetched"] = 0 if places % 16 else case.length * 2
    return params


def check_call(
    case: FftConvCase,
    values: tuple[Tensor, Tensor | None, Tensor | None],
    w: tuple[Tensor, Tensor],
    d: Tensor | None,
    out: Tensor | None,
    points: int,
) -> None:
    """Raises ValueError that names a wrong argument; `points` are those of the filters' transforms."""
    dtype, shape, filters = (DTYPES[case.dtype],), (case.batch, case.width, case.length), case.filters or case.width
    for name, tensor in zip(("u", "w_pre", "w_post"), values, strict=True):
        if name != "u":
            check_presence(name, tensor, case.gated, f"gated is {case.gated}")
        if tensor is not None:
            check_tensor(name, tensor, shape, dtype, layout="contiguous")
    if not isinstance(w, tuple) or len(w) != 2:
        raise ValueError("w is not what `pack` returned")
    check_tensor("w", w[0], (filters, points), (torch.int32,), layout="contiguous", aligned=16)
    check_tensor("w's scales", w[1], (filters,), (torch.float32,), layout="contiguous")
    check_presence("d", d, case.skip, f"skip is {case.skip}")
    if d is not None:
        check_tensor("d", d, (case.width,), (torch.float32,), layout="contiguous")
    check_out(out, shape, dtype)
