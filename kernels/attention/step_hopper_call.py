"""A call of step_attention.cu: checks and packs the arguments."""

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from kernels.attention.step_hopper_tiles import FIELDS, THREADS, page_size_of
from kernels.check_args import TensorLayout, check_out, check_presence, check_sinks, check_tensor
from kernels.cuda.call import CudaCall, Prepared, launch_nothing, layout
from kernels.cuda.launch import Launch
from kernels.dtypes import DTYPES
from kernels.ops import StepAttentionCase

PARAMS = np.dtype(FIELDS, align=True)


class StepArguments(NamedTuple):
    """The arguments of a call, in their order: `StepHopper.build` says what they are."""

    qkv: Tensor
    cos: Tensor
    sin: Tensor
    k_cache: Tensor
    v_cache: Tensor
    position: Tensor
    page_table: Tensor | None = None
    q_norm: Tensor | None = None
    k_norm: Tensor | None = None
    sinks: Tensor | None = None


def contiguous_layout(values: Iterable[Any]) -> tuple[Any, ...]:
    """What differs between right calls without pages, norms and sinks: capacity, caches' strides, positions."""
    out, qkv, cos, sin, k_cache, v_cache, position, *_ = values
    return (
        out.data_ptr(), qkv.data_ptr(), cos.data_ptr(), sin.data_ptr(), k_cache.data_ptr(), v_cache.data_ptr(),
        position.data_ptr(), k_cache.numel(), k_cache.stride(), position.numel(),
    )  # fmt: skip


class StepCall(CudaCall):
    """f(qkv, cos, sin, k_cache, v_cache, position, page_table=None) -> o; see `StepHopper.build`."""

    in_order = StepArguments

    def __init__(
        self, case: StepAttentionCase, kernel: Any, grid: tuple[int, int, int], shared_bytes: int, pdl: bool
    ) -> None:
        super().__init__()
        self.open_layout = layout if case.paged or case.norm_eps is not None or case.sinks else contiguous_layout
        self.case, self.kernel, self.grid, self.shared_bytes, self.pdl = case, kernel, grid, shared_bytes, pdl

    def _prepare(self, check: bool, stream: int, out: Any, /, *arguments: Any, **named: Any) -> Prepared:
        given = StepArguments(*arguments, **named)
        qkv, cos, sin, k_cache, v_cache, position, table, *weights = given
        case = self.case
        shape = (case.batch, case.heads * case.head_dim)
        if check:
            check_step(case, given)
            check_out(out, shape, (DTYPES[case.dtype],))
        allocate = partial(torch.empty, *shape, dtype=qkv.dtype, device=qkv.device)
        if not case.batch:
            return Prepared(allocate, lambda _: launch_nothing)
        read = (0 if tensor is None else tensor.data_ptr() for tensor in (qkv, cos, sin, *weights, k_cache, v_cache))
        step, window = (0 if len(position) == 1 else 1), case.window or 0
        tables, table_step = (0, 0) if table is None else (table.data_ptr(), table.stride(0))
        fields = (
            *read, 0, position.data_ptr(), tables, step, table_step, k_cache.stride(0),
            k_cache.stride(1), k_cache.stride(2), held_of(given), window, len(k_cache), case.head_dim**-0.5,
            case.norm_eps or 0.0,
        )  # fmt: skip
        params = np.array(fields, PARAMS)

        def bind(o: Tensor) -> Launch:
            mine = params.copy()
            mine["out"] = o.data_ptr()
            return Launch(self.kernel, self.grid, THREADS, (mine,), stream, self.shared_bytes, self.pdl)

        return Prepared(allocate, bind)


def held_of(args: StepArguments) -> int:
    """The tokens of one sequence for which the cache has slots."""
    tokens = args.k_cache.shape[1] if args.k_cache.ndim == 4 else -1
    return tokens if args.page_table is None else tokens * args.page_table.shape[-1]


def check_step(case: StepAttentionCase, args: StepArguments) -> None:
    """Raises ValueError that names the argument whose shape, dtype, layout or device the kernel cannot take."""
    qkv, cos, sin, k_cache, v_cache, position, table, q_norm, k_norm, sinks = args
    check_presence("page_table", table, case.paged, f"the case's paged {case.paged}")
    for name, weight in (("q_norm", q_norm), ("k_norm", k_norm)):
        check_presence(name, weight, case.norm_eps is not None, f"the case's norm_eps {case.norm_eps}")
        if weight is not None:
            check_tensor(name, weight, (case.head_dim,), (DTYPES[case.dtype],), qkv.device, layout="contiguous")
    check_sinks(case, sinks, qkv.device)
    capacity = held_of(args)
    if len(cos) < capacity:
        raise ValueError(f"cos has {len(cos)} rows and the cache {capacity} slots")
    outer = (None, page_size_of(case)) if case.paged else (case.batch, capacity)
    cache = (*outer, case.kv_heads, case.head_dim)
    shapes = {
        "qkv": (qkv, (case.batch, (case.heads + 2 * case.kv_heads) * case.head_dim)),
        "cos": (cos, (cos.shape[0], case.head_dim)),
        "sin": (sin, tuple(cos.shape)),
        "k_cache": (k_cache, cache),
        "v_cache": (v_cache, cache),
    }
    for name, (tensor, shape) in shapes.items():
        needed: TensorLayout = "rows" if name in ("k_cache", "v_cache") else "contiguous"
        check_tensor(name, tensor, shape, (DTYPES[case.dtype],), layout=needed, aligned=16)
        if tensor.device != qkv.device:
            raise ValueError(f"{name} is on {tensor.device} and qkv on {qkv.device}")
    positions = (1,) if position.shape == (1,) else (case.batch,)
    check_tensor("position", position, positions, (torch.int64,), qkv.device, layout="contiguous")
    if table is not None:
        check_tensor("page_table", table, (case.batch, None), (torch.int32,), qkv.device)
        check_tensor("v_cache", v_cache, tuple(k_cache.shape), (k_cache.dtype,), qkv.device)
    if v_cache.stride() != k_cache.stride() or any(step % 8 for step in k_cache.stride()[:3]):
        strides = f"k_cache has strides {list(k_cache.stride())}, v_cache {list(v_cache.stride())}"
        raise ValueError(f"{strides}: they must be equal, and multiples of 8 but for the last")
