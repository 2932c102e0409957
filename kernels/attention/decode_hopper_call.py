"""A call of decode attention on Hopper. Only `build` imports this module: it needs Triton."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.attention.decode_call import CacheAttention, DecodeArguments, KeyCounts, processors
from kernels.attention.decode_hopper_tiles import PARAMS, STEP, build_of, page_of, shared_bytes, split_count
from kernels.cuda import nvrtc
from kernels.cuda.call import Prepared
from kernels.cuda.launch import Launch
from kernels.ops import AttentionCase


class HopperCall(CacheAttention):
    """The callable of `decode_hopper`."""

    def __init__(self, case: AttentionCase, tuning: dict[str, int]) -> None:
        super().__init__(case, tuning, split_count(case, tuning, processors()))
        self._kernels: dict[tuple[bool, int], tuple[Any, int]] = {}
        self._kernel(case.kv_lengths is not None, page_of(case))

    def _kernel(self, counted: bool, page: int) -> tuple[Any, int]:
        """The kernel for given lengths or none and for this page size, with its shared memory."""
        if (counted, page) not in self._kernels:
            build = build_of(self.case, self.tuning, self.splits, counted, page)
            size = shared_bytes(dict(build.defines))
            self._kernels[counted, page] = nvrtc.load(build, "decode_hopper", size), size
        return self._kernels[counted, page]

    def _pack_args(
        self, args: DecodeArguments, counts: KeyCounts, stream: int, allocate: Callable[[], Tensor]
    ) -> Prepared:
        case = self.case
        q, k, v, _, page_table, k_scale, v_scale, *_ = args
        page = 0 if page_table is None else k.shape[1]
        if page % STEP:
            raise ValueError(f"k has pages of {page} tokens: this variant takes multiples of {STEP}")
        call = _strides(q, k, v)
        parts, sums, arrivals = self.parts.take(stream, lambda: self.scratch.take(q.device))
        tensors = {"q": q, "k": k, "v": v, "lengths": counts.given, "table": page_table}
        tensors |= {"arrivals": arrivals, "k_scale": k_scale, "v_scale": v_scale}
        for name, value in tensors.items():
            call[name] = 0 if value is None else value.data_ptr()
        if counts.given is not None:
            call["wide"] = counts.given.dtype == torch.int64
            call["lengths_step"] = 0 if counts.given.shape[0] == 1 else counts.given.stride(0)
        call["table_step"] = 0 if page_table is None else page_table.stride(0)
        call["more"], call["capacity"], call["pages"] = counts.more, counts.capacity, k.shape[0]
        call["scale"] = self.scale
        kernel, size = self._kernel(counts.given is not None, page)
        grid, threads = (self.splits, case.kv_heads, case.batch), 32 * self.tuning["warps"]

        def bind(o: Tensor) -> Launch:
            mine = call.copy()
            mine["o"], mine["parts"], mine["sums"] = (tensor.data_ptr() for tensor in (o, parts, sums))
            return Launch(kernel, grid, threads, (mine,), stream, size)

        return Prepared(allocate, bind)


def _strides(q: Tensor, k: Tensor, v: Tensor) -> Any:
    """`PARAMS` with strides in bytes. Raises ValueError for an address or stride that is no multiple of 16 bytes."""
    call = np.zeros((), PARAMS)
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
