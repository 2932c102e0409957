"""A call of decode attention on Hopper. Only `build` imports this module: it needs Triton."""

import math
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.attention.decode_call import LOG2E, DecodeArguments, check_arguments, counts_of, processors
from kernels.attention.decode_hopper import SOURCE, STEP, constants, shared_bytes, split_count
from kernels.attention.decode_scratch import Scratch
from kernels.check_args import check_out
from kernels.cuda import nvrtc
from kernels.cuda.call import CudaCall, Prepared, Workspace, layout, nothing, size_and_strides
from kernels.cuda.launch import Launch
from kernels.dtypes import DTYPES
from kernels.ops import AttentionCase

POINTERS = ("q", "k", "v", "o", "parts", "sums", "arrivals", "lengths", "table", "k_scale", "v_scale")
STRIDES = ("q_batch", "q_head", "k_first", "k_head", "v_first", "v_head")
CALL = np.dtype(
    [(name, np.uint64) for name in POINTERS]
    + [(name, np.int64) for name in (*STRIDES, "lengths_step", "table_step")]
    + [(name, np.uint32) for name in ("k_token", "v_token")]
    + [(name, np.int32) for name in ("wide", "more", "capacity", "pages")]
    + [("scale", np.float32)],
    align=True,
)
"""`struct Call` of the source; strides in bytes, except those of lengths and table."""


class HopperCall(CudaCall):
    """The callable of `decode_hopper`; `DecodeCall` says how it is called, under a CUDA graph too."""

    workspace = True

    def __init__(self, case: AttentionCase, tuning: dict[str, int], scale: float | None = None) -> None:
        super().__init__()
        self.open_layout = layout if case.paged else size_and_strides
        self.case, self.tuning = case, tuning
        self.splits, group = split_count(case, tuning, processors()), case.heads // case.kv_heads
        self.scratch = Scratch(case.batch * case.kv_heads, self.splits, group, case.head_dim)
        self.parts: Workspace[tuple[Tensor, Tensor, Tensor]] = Workspace()
        self.scale = LOG2E * (1 / math.sqrt(case.head_dim) if scale is None else scale)
        self._kernels: dict[tuple[bool, int], tuple[Any, int]] = {}
        self._kernel(case.kv_lengths is not None, (case.page_size or STEP) if case.paged else 0)

    def _kernel(self, counted: bool, page: int) -> tuple[Any, int]:
        """The kernel for given lengths or none and for this page size, with its shared memory."""
        if (counted, page) not in self._kernels:
            given = constants(self.case, self.tuning, self.splits, counted, page)
            size = shared_bytes(given)
            self._kernels[counted, page] = nvrtc.load(SOURCE, "decode_hopper", given, size), size
        return self._kernels[counted, page]

    def __call__(self, *arguments: Any, check: bool = False, out: Tensor | None = None, **named: Any) -> Tensor:
        if check:
            given = DecodeArguments(*arguments, **named)
            check_arguments(self.case, given)
            counts_of(self.case, given).check(given.k, given.page_table)
        return super().__call__(*arguments, out=out, **named)

    def _prepare(self, check: bool, stream: int, out: Any, /, *arguments: Any, **named: Any) -> Prepared:
        given = DecodeArguments(*arguments, **named)
        q, k, v, _, page_table, k_scale, v_scale, _ = given
        case = self.case
        shape = (case.batch, case.q_len, case.heads, case.head_dim)
        if check:
            check_arguments(case, given)
            check_out(out, shape, (DTYPES[case.dtype],))
        allocate = partial(torch.empty, *shape, dtype=q.dtype, device=q.device)
        if not q.numel():
            return Prepared(allocate, lambda _: nothing)
        found = counts_of(case, given)
        page = 0 if page_table is None else k.shape[1]
        if page % STEP:
            raise ValueError(f"k has pages of {page} tokens: this variant takes multiples of {STEP}")
        call = _strides(q, k, v)
        parts, sums, arrivals = self.parts.take(stream, partial(self.scratch.take, q.device))
        tensors = {"q": q, "k": k, "v": v, "lengths": found.given, "table": page_table}
        tensors |= {"arrivals": arrivals, "k_scale": k_scale, "v_scale": v_scale}
        for name, value in tensors.items():
            call[name] = 0 if value is None else value.data_ptr()
        if found.given is not None:
            call["wide"] = found.given.dtype == torch.int64
            call["lengths_step"] = 0 if found.given.shape[0] == 1 else found.given.stride(0)
        call["table_step"] = 0 if page_table is None else page_table.stride(0)
        call["more"], call["capacity"], call["pages"] = found.more, found.capacity, k.shape[0]
        call["scale"] = self.scale
        kernel, size = self._kernel(found.given is not None, page)
        grid, threads = (self.splits, case.kv_heads, case.batch), 32 * self.tuning["warps"]

        def bind(o: Tensor) -> Launch:
            mine = call.copy()
            mine["o"], mine["parts"], mine["sums"] = (each.data_ptr() for each in (o, parts, sums))
            return Launch(kernel, grid, threads, (mine,), stream, size)

        return Prepared(allocate, bind)


def _strides(q: Tensor, k: Tensor, v: Tensor) -> Any:
    """`CALL` with strides in bytes. Raises ValueError for an address or stride that is no multiple of 16 bytes."""
    call = np.zeros((), CALL)
    for name, given in (("q", q), ("k", k), ("v", v)):
        steps = [step * given.element_size() for step in given.stride()[:3]]
        if given.data_ptr() % 16 or any(step % 16 for step in steps) or steps[1] >= 1 << 31:
            raise ValueError(
                f"{name} begins at {given.data_ptr():#x} with strides {given.stride()}: 16-byte steps are needed"
            )
        call[f"{name}_head"], call[f"{name}_batch" if name == "q" else f"{name}_first"] = steps[2], steps[0]
        if name != "q":
            call[f"{name}_token"] = steps[1]
    return call
