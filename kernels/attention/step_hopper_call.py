"""A call of step_attention.cu: checks and packs the arguments."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from kernels.attention.step_hopper import FIELDS, THREADS
from kernels.check_args import check_out, check_tensor
from kernels.cuda.call import CudaCall, Prepared, nothing, size
from kernels.cuda.launch import Launch
from kernels.dtypes import DTYPES
from kernels.ops import StepAttentionCase

CALL = np.dtype(FIELDS, align=True)


class StepArguments(NamedTuple):
    """The arguments of a call, in their order: `StepHopper.build` says what they are."""

    qkv: Tensor
    cos: Tensor
    sin: Tensor
    k_cache: Tensor
    v_cache: Tensor
    position: Tensor


class StepCall(CudaCall):
    """f(qkv, cos, sin, k_cache, v_cache, position) -> o [batch, heads · head_dim]; see `StepHopper.build`."""

    open_layout = staticmethod(size)

    def __init__(
        self, case: StepAttentionCase, kernel: Any, grid: tuple[int, int, int], shared_bytes: int, pdl: bool
    ) -> None:
        super().__init__()
        self.case, self.kernel, self.grid, self.shared_bytes, self.pdl = case, kernel, grid, shared_bytes, pdl

    def _prepare(self, check: bool, stream: int, out: Any, /, *arguments: Any, **named: Any) -> Prepared:
        given = StepArguments(*arguments, **named)
        qkv, cos, sin, k_cache, v_cache, position = given
        case = self.case
        shape = (case.batch, case.heads * case.head_dim)
        if check:
            check_step(case, given)
            check_out(out, shape, (DTYPES[case.dtype],))
        allocate = partial(torch.empty, *shape, dtype=qkv.dtype, device=qkv.device)
        if not case.batch:
            return Prepared(allocate, lambda _: nothing)
        addresses = [each.data_ptr() for each in (qkv, cos, sin, k_cache, v_cache)]
        step, window = (0 if len(position) == 1 else 1), case.window or 0
        fields = (*addresses, 0, position.data_ptr(), step, k_cache.shape[1], window, case.head_dim**-0.5)
        params = np.array(fields, CALL)

        def bind(o: Tensor) -> Launch:
            mine = params.copy()
            mine["out"] = o.data_ptr()
            return Launch(self.kernel, self.grid, THREADS, (mine,), stream, self.shared_bytes, self.pdl)

        return Prepared(allocate, bind)


def check_step(case: StepAttentionCase, given: StepArguments) -> None:
    """Raises ValueError that names the argument whose shape, dtype, layout or device the kernel cannot take."""
    qkv, cos, sin, k_cache, v_cache, position = given
    capacity = k_cache.shape[1] if k_cache.ndim == 4 else -1
    if len(cos) < capacity:
        raise ValueError(f"cos has {len(cos)} rows and the cache {capacity} slots")
    cache = (case.batch, capacity, case.kv_heads, case.head_dim)
    shapes = {
        "qkv": (qkv, (case.batch, (case.heads + 2 * case.kv_heads) * case.head_dim)),
        "cos": (cos, (cos.shape[0], case.head_dim)),
        "sin": (sin, tuple(cos.shape)),
        "k_cache": (k_cache, cache),
        "v_cache": (v_cache, cache),
    }
    for name, (each, shape) in shapes.items():
        check_tensor(name, each, shape, (DTYPES[case.dtype],), layout="contiguous", aligned=16)
        if each.device != qkv.device:
            raise ValueError(f"{name} is on {each.device} and qkv on {qkv.device}")
    positions = (1,) if position.shape == (1,) else (case.batch,)
    check_tensor("position", position, positions, (torch.int64,), qkv.device, layout="contiguous")
