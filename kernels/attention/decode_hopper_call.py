"""One decode attention on Hopper, to be called. Imports Triton, as the class it shares its checks with: for `build`."""

import math
from typing import Any

import numpy as np
import torch

from kernels.attention.decode_call import LOG2E, DecodeCall, processors
from kernels.attention.decode_hopper import SOURCE, STEP, constants, shared_bytes, split_count
from kernels.attention.decode_triton import Scratch
from kernels.cuda import nvrtc
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
"""`Call` of the source; strides in bytes, but for those of lengths and table."""


class HopperCall(DecodeCall):
    """The callable of `decode_hopper`; `DecodeCall` says how it is called, under a CUDA graph too."""

    def __init__(self, case: AttentionCase, tuning: dict[str, int], scale: float | None = None) -> None:
        self.case, self.tuning = case, tuning
        self.splits, group = split_count(case, tuning, processors()), case.heads // case.kv_heads
        self.scratch = Scratch(case.batch * case.kv_heads, self.splits, group, case.head_dim)
        self.scale = LOG2E * (1 / math.sqrt(case.head_dim) if scale is None else scale)
        self._kernels: dict[tuple[bool, int], tuple[Any, int]] = {}
        self._kernel(case.kv_lengths is not None, (case.page_size or STEP) if case.paged else 0)

    def _kernel(self, counted: bool, page: int) -> tuple[Any, int]:
        """The kernel that reads lengths or not and has pages of this size, and the shared memory it takes."""
        if (counted, page) not in self._kernels:
            given = constants(self.case, self.tuning, self.splits, counted, page)
            size = shared_bytes(given)
            self._kernels[counted, page] = nvrtc.load(SOURCE, "decode_hopper", given, size), size
        return self._kernels[counted, page]

    def launch(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        o: torch.Tensor,
        counts: torch.Tensor | None,
        page_table: torch.Tensor | None,
        k_scale: torch.Tensor | None,
        v_scale: torch.Tensor | None,
        more: int,
        capacity: int,
    ) -> None:
        case, call = self.case, np.zeros((), CALL)
        page = 0 if page_table is None else k.shape[1]
        if page % STEP:
            raise ValueError(f"k has pages of {page} tokens: this variant takes multiples of {STEP}")
        for name, given in (("q", q), ("k", k), ("v", v)):
            steps = [step * given.element_size() for step in given.stride()[:3]]
            if given.data_ptr() % 16 or any(step % 16 for step in steps) or steps[1] >= 1 << 31:
                raise ValueError(
                    f"{name} begins at {given.data_ptr():#x} with strides {given.stride()}: 16-byte steps are needed"
                )
            call[f"{name}_head"], call[f"{name}_batch" if name == "q" else f"{name}_first"] = steps[2], steps[0]
            if name != "q":
                call[f"{name}_token"] = steps[1]
        tensors = {"q": q, "k": k, "v": v, "o": o, "lengths": counts, "table": page_table}
        parts, sums, arrivals = self.scratch.take(q.device)
        tensors |= {"parts": parts, "sums": sums, "arrivals": arrivals, "k_scale": k_scale, "v_scale": v_scale}
        for name, value in tensors.items():
            call[name] = 0 if value is None else value.data_ptr()
        if counts is not None:
            call["wide"] = counts.dtype == torch.int64
            call["lengths_step"] = 0 if counts.shape[0] == 1 else counts.stride(0)
        call["table_step"] = 0 if page_table is None else page_table.stride(0)
        call["more"], call["capacity"], call["pages"], call["scale"] = more, capacity, k.shape[0], self.scale
        kernel, size = self._kernel(counts is not None, page)
        nvrtc.launch(kernel, (self.splits, case.kv_heads, case.batch), 32 * self.tuning["warps"], (call,), size)
